"""A script as one task, or as all tasks of a cluster on this machine.

The idea: a script needs no change to become a cluster.  Each task gets `TF_CONFIG`, and the classic flags if the
script defines them; the ps end when the workers have ended.

Data structures: a `ScriptJob` is a script and the cluster that runs it.

It does not look into the script, apart from the names of its flags.
"""
