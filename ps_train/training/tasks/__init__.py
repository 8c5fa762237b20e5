"""The tasks of a job as processes: ps, worker, chief and evaluator, each from start to exit.

The idea: a role is a function from a job and a task to an exit code.  A worker's has three steps: prepare, join, train.
The chief is a worker with more to do: `ChiefTraining` is a `WorkerTraining`.

Data structures: `Prepared` is a task whose model's code ran once and whose plan is made, before it calls another
process.  `Joined` is its connections to the job; the chief's are `JoinedAsChief`.  A `Generation` is an unbroken life
of the state on the ps.  The outcome is a record on every ps, and one exit code for all processes of a job.

An evaluator is no member of the cluster: it knows a directory and nothing else.

Files:

    chief_training.py    The training thread of the chief, a worker that also initializes or restores the model, saves
                           it, and ends the job
    delta_writer.py      The writer of a run's deltas (`--delta_every_secs`): a process beside the chief, which takes no
                           time from training
    dtype_check.py       Check, before any step, that a model computes in the dtype that the job asks for
                           (--compute_dtype)
    eval_exports.py      Exports of an evaluator: the model of each evaluation, or each that is the best so far
    evaluator.py         The role of an evaluator: it scores checkpoints on the test split in a plain session, outside
                           of the cluster
    export_model.py      The export of a checkpoint as a job asks for it, and the score of a checkpoint in a plain graph
    final_evaluation.py  The final evaluation: the chief and every worker that waits for the end score one shard of
                           the test data each
    health_port.py       The health endpoint of a task, for probes such as those of Kubernetes: the process runs, and is
                           not stopped
    hosted_ps.py         The duties of a ps in the process of a worker, under `--ps_on_workers`
    job_end.py           The end of a job for one training task: the outcome that it publishes, and its exit code
    join.py              The joining of a training task: it connects to every ps, acquires its lease, and shows that it
                           lives
    measured_weights.py  Weights of the ps that follow their measured speed (`--ps_weights=auto`): the chief measures,
                           all tasks agree
    model_check.py       Checks, before any step, of the parts of a model that are needed later: optimizer, test data,
                           metrics, predictions
    model_directory.py   The model directory of a task: a local one, or the spool of one on an object store
    prepare.py           The preparation of a training task: all that it finds and checks before it calls another
                           process
    ps.py                The role of a parameter server: it serves its part of the variables until the job is over, then
                           exits by itself
    racks.py             The racks of a job: each worker learns the rack of every other one, and all of them agree
    warm_starts.py       The warm start of a job, found before any other process is called
    worker.py            The role of a worker or of the chief (worker 0 unless a chief is named), from start to exit:
                           prepare, join, train
    worker_training.py   The training thread of a worker: it builds the graph, opens the session, and runs the loop
                           until the job is done
"""
