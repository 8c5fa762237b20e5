"""The tasks of a job as processes: ps, worker, chief and evaluator, each from start to exit.

The idea: a task is a function from a job and a name to an exit code.  A worker has two threads.  The main thread waits
for signals and for the heartbeat's news.  The other one is a `Training`: it agrees, builds the graph, and makes one
`Attempt` after the other.  The chief is a worker with another list of duties.

Data structures: a `Generation` is an unbroken life of the state on the ps; an attempt trains in one.  The outcome is a
record on every ps, and one exit code for all processes of a job.

An evaluator is no member of the cluster: it knows a directory and nothing else.
"""
