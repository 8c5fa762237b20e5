"""The training of one task, from its start to its exit code.

The idea: prepare, join, train, leave.  A task checks all that needs no network, joins the cluster, and then makes
steps in sessions that may be replaced.  The chief has more duties: it initializes or restores, saves, tracks
membership and ends the job.

Data structures: the task's context holds what is known before the first step.  A `Generation` is an unbroken life of
the state on the ps.  A burst is the number of steps that a worker makes before it looks up.

It does not know how a process was started, nor what the user's program looks like.

Files:

    loop/   The training thread: one session after the other, steps in bursts, and the duties of chief and workers
    tasks/  The tasks of a job as processes: ps, worker, chief and evaluator, each from start to exit
"""
