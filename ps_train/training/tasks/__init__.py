"""The tasks of a job as processes: ps, worker, chief and evaluator, each from start to exit.

The idea: a role is a function from a job and a task to an exit code.  It checks what needs no network, joins, does
its part, and reports the outcome that all tasks read.

Data structures: a `TracedModel` is a model whose code ran once.  The outcome is a record on every ps, and one exit
code for all processes of a job.

An evaluator is no member of the cluster: it knows a directory and nothing else.

Files:

    dtype_check.py   Check, before any step, that a model computes in the dtype that the job asks for
                       (--compute_dtype)
    eval_exports.py  Exports of an evaluator: the model of each evaluation, or each that is the best so far
    evaluator.py     The role of an evaluator: it scores checkpoints on the test split in a plain session, outside of
                       the cluster
    health_port.py   The health endpoint of a task, for probes such as those of Kubernetes: the process runs, and is
                       not stopped
    job_end.py       The end of a job for one training task: the outcome that it publishes, and its exit code
    model_check.py   Checks, before any step, of the parts of a model that are needed later: optimizer, test data,
                       metrics, predictions
    ps.py            The role of a parameter server: it serves its part of the variables until the job is over, then
                       exits by itself
    worker.py        The role of a worker or of the chief (worker 0 unless a chief is named), from start to exit
"""
