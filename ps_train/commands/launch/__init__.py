"""Starting a job: on this machine, on other hosts by ssh, and from Python.

The idea: one supervisor keeps the children of a job (`supervisor.py`), and only their start differs: a fork
(`local.py`), ssh (`ssh.py`) or a call from Python (`fit.py`).  The first failure is the cause of the job.

Data structures: a `Child` is a task as a process, `TaskOutput` its last lines.  `RestartPolicy` is a pure decision.
`PortReservation` keeps a port until its task takes it over.

It does not know what its children compute.
"""
