"""Starting a job: on this machine, on other hosts by ssh, and from Python.

The idea: one supervisor keeps the children of a job (`supervisor.py`), and only their start differs: a fork
(`local.py`), ssh (`ssh.py`) or a call from Python (`fit.py`).  The first failure is the cause of the job.

Data structures: a `Child` is a task as a process, `TaskOutput` its last lines.  `RestartPolicy` is a pure decision.
`PortReservation` keeps a port until its task takes it over.

It does not know what its children compute.

Files:

    child_process.py     A task of a cluster on this machine, as a child process
    command.py           Starts all tasks of a job on several hosts, over the user's own ssh
    dry_run.py           `--dry_run`: the report of a warm start, without any cluster
    fit.py               Training as a Python call
    fit_process.py       The job of a fit as a child process, whose output becomes this process's output
    fork.py              A child process forked from this process: it need not import the modules that are imported
                           here
    history.py           The history of a fit: a table of loss, speed and metrics by step, and its picture
    hosts.py             The tasks in `--hosts=a:ps,me@b=10.0.0.2:worker*2`
    launcher.py          The launcher of a job: it starts tasks as child processes, shows their output and reports the
                           first failure
    local.py             A whole cluster on this machine: the other roles are child processes of the launcher
                           (`launcher.py`)
    output.py            The output of a child process: the lines of its standard output and of its standard error
    port_reservation.py  Reservation of free ports of this machine until a task serves on them
    preflight.py         Checks of a job before any process starts, in a fraction of a second and without TensorFlow
    progress_bar.py      The progress bar of a fit in a notebook, with the loss and the metrics
    remote.py            The other side of `ssh.py`: runs a task, and ends all its processes when the launcher or the
                           connection dies
    restart_policy.py    The policy of restarts of failed children, a function of exit codes and counts alone
    sent_model.py        A model of this process as a module that other processes import
    ssh.py               A task on another host, as a process of the user's own `ssh`
    supervisor.py        The supervision of child processes: their output, the first failure, grace, and the kill
    task_log.py          The log of a task: a copy of all that its process writes, also of what native libraries write
"""
