"""The training thread: one session after the other, steps in bursts, and the duties of chief and workers.

The idea: steps run in bursts of about 0.2 s, and hooks, signals and progress come between them.  A session may end at
any time; the loop then begins a new one, with the same input and the same source of steps.

Data structures: a `Burst` is some steps as calls of `session.run`.  A `StepSource` gives a replica the steps that it
may make.  `Generation` is an unbroken life of the state on the ps.  `Recovery` says what the chief restores after a
loss.

It does not build the graph of a step.

Files:

    burst_size.py        Sizes of bursts and of calls of `session.run`, chosen from the measured time of steps
    call_wrappers.py     Wrappers of the functions that make a replica's calls: to time them, or to slow them down
    chief_duties.py      The duties of the chief beside making steps: it initializes or restores the model, saves it,
                           and ends the job
    duties.py            The interface of the duties of a replica beside making steps
    final_evaluation.py  The final evaluation: the chief and every worker that waits for the end score one shard of
                           the test data each
    input.py             The input of a training task, which outlives the sessions that read it
    loop.py              The training loop: steps in bursts
    recovery.py          Recovery of the model's state on the ps by the chief: at the start, and after a ps lost its
                           state
    session.py           The session of a training task
    shard_client.py      Client of dynamic data sharding (--sharding=dynamic): a worker acquires shards whenever it
                           needs more batches
    step_sources.py      Sources of the steps that a replica may make
    task_context.py      The context of a training task, complete before its training thread begins
    worker_duties.py     The duties of a worker that is not the chief
    worker_training.py   The training thread of a worker: it builds the graph, opens the session, and runs the loop
                           until the job is done
"""
