"""The tasks of a job as processes: ps, worker, chief and evaluator, each from start to exit.

The idea: a role is a function from a job and a task to an exit code.  A worker's has three steps: prepare, join, train.
The chief is a worker with more to do: `ChiefTraining` is a `WorkerTraining`.

Data structures: `Prepared` is a task whose model's code ran once and whose plan is made, before it calls another
process.  `Joined` is its connections to the job; the chief's are `JoinedAsChief`.  A `Generation` is an unbroken life
of the state on the ps.  The outcome is a record on every ps, and one exit code for all processes of a job.

An evaluator is no member of the cluster: it knows a directory and nothing else.
"""
