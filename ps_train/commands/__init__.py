"""The program's verbs, such as `launch`, `doctor`, `tune` and `predict`, and `fit` and `tune` as calls of Python.

The idea: a command starts or checks other processes, shows what they say, and leaves none behind.  The first failure
is the cause that it reports.

Data structures: a child process with its output, its exit code and its place in the restart policy.  A finding of the
doctor is one line and an exit code.

It does not know graphs or sessions: tasks are processes with flags.
"""
