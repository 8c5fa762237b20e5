"""The training of one task, from its start to its exit code.

The idea: prepare, join, agree, build, train, leave.  A task checks all that needs no network, joins the cluster, agrees
with the others, and then makes steps in sessions that may be replaced.  What it does beside its steps are its duties:
each feature is one, and the chief has more of them than another worker.

Data structures: `Prepared` is a task before it calls another process.  `Joined` is its connections to the job.
`Agreed` is what all tasks know.  `Parts` are the duties of a task.  An `Attempt` is one session, with its loop and its
ledger.  A burst is the number of steps that a worker makes before it looks up.

Rooms, in the order of their imports: `loop`, `joining`, `duties`, `tasks`.  It does not know how a process was started,
nor what the user's program looks like.
"""
