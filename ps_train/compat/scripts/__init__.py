"""A script as one task, or as all tasks of a cluster on this machine.

The idea: a script needs no change to become a cluster.  Each task gets `TF_CONFIG`, and the classic flags if the
script defines them; the ps end when the workers have ended.

Data structures: a `ScriptJob` is a script and the cluster that runs it.

It does not look into the script, apart from the names of its flags.

Files:

    cluster_of_scripts.py  A script run as all tasks of a cluster on this machine
    command.py             Runs a TensorFlow 1 script, as one task or as all tasks of a cluster on this machine
    python2.py             Advice for an error that shows that a program was written for Python 2
    script_flags.py        Each task's configuration for a script: `TF_CONFIG`, and the classic flags where the script
                             defines them
    script_process.py      A script run in this process, or in a child process that dies with the launcher
"""
