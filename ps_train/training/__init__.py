"""The training of one task, from its start to its exit code.

The idea: prepare, join, train, leave.  A task checks all that needs no network, joins the cluster, and then makes
steps in sessions that may be replaced.  The chief has more duties: it initializes or restores, saves, tracks
membership and ends the job.

Data structures: `Prepared` is a task before it calls another process.  `Joined` is its connections to the job.  A
`Generation` is an unbroken life of the state on the ps.  A burst is the number of steps that a worker makes before it
looks up.

It does not know how a process was started, nor what the user's program looks like.
"""
