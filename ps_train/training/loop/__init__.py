"""The parts of a training thread: sessions, input, steps in bursts, the recovery of lost state.

The idea: steps run in bursts of about 0.2 s, and hooks, signals and progress come between them.  A session may end at
any time; the loop then begins a new one, with the same input and the same source of steps.

Data structures: a `Burst` is some steps as calls of `session.run`.  A `StepSource` gives a replica the steps that it
may make.  `Recovery` says what the chief restores after a loss.

It does not build the graph of a step, and does not know the task that it serves: `tasks/` puts the parts together.

Files:

    burst_size.py        Sizes of bursts and of calls of `session.run`, chosen from the measured time of steps
    call_wrappers.py     Wrappers of the functions that make a replica's calls: to trace them, or to slow them down
    event_cuts.py        The chief's part of cuts by event time: a checkpoint when all partitions have reached one
    input.py             The input of a training task, which outlives the sessions that read it
    loop.py              The training loop: steps in bursts
    partition_client.py  Client of data without an end: a worker owns partitions, and makes a step for each batch that
                           it has read
    rack.py              A worker among those of its rack: it finds the aggregator, or is it
    recovery.py          Recovery of the model's state on the ps by the chief: at the start, and after a ps lost its
                           state
    session.py           The session of a training task
    shard_client.py      Client of dynamic data sharding (--sharding=dynamic): a worker acquires shards whenever it
                           needs more batches
    step_sources.py      Sources of the steps that a replica may make
"""
