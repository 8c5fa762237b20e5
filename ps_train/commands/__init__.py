"""The program's verbs, such as `launch`, `doctor`, `tune` and `predict`, and `fit` and `tune` as calls of Python.

The idea: a command starts or checks other processes, shows what they say, and leaves none behind.  The first failure
is the cause that it reports.

Data structures: a child process with its output, its exit code and its place in the restart policy.  A finding of the
doctor is one line and an exit code.

It does not know graphs or sessions: tasks are processes with flags.

Files:

    deltas/    Deltas: what has changed between two checkpoints or exports, written and applied
    doctor/    The doctor: checks of a host and of the way to the others, before a job is started
    firewall/  The firewall: only the job's hosts reach the job's ports
    launch/    Starting a job: on this machine, on other hosts by ssh, and from Python
    scoring/   Scoring: predictions of exported models for files, and the comparison of two models
    tuning/    Tuning: a study of whole jobs, whose flags Optuna proposes
"""
