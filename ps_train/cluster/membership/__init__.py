"""The knowledge that tasks share: records, leases, heartbeats, membership and the steps of a job.

The idea: a task proves that it lives by changing a record.  A reader compares what it has seen with its own clock, so
the clocks of machines need not agree.  The chief alone decides who is a member.

Data structures: a record is a small JSON value in the key-value store of a ps.  A lease is a record that one process
holds for a task.  The membership is the set of tasks that rounds wait for.  The steps that remain are a record too.

It does not know graphs or variables.

Files:

    connect.py         Connections to all ps, made with a deadline before any training session
    directory_lock.py  Lock of a model directory: a file in it that names the chief which writes there
    heartbeat.py       The presence of a task on the engine: it also renews the task's lease and reads the records of
                         other tasks
    job_diff.py        Comparison of two processes' descriptions of a job, with the differences in words
    kv_store.py        A small key-value store on each ps, in which the processes of a job write their records
    lease.py           Task lease: a record in the store of ps 0 that ensures that only one process runs as each task
    liveness.py        Liveness: the time for which a heartbeat has not changed
    membership.py      Membership: the training tasks that take part in a job, as the chief sees it
    preparing.py       Sign of life of a task that prepares, which every ps gets before the task joins
    presence.py        Presence of a training task: it tells every ps twice a second that it lives, and at its end
                         how it ended
    ps_liveness.py     Liveness of the ps, as one training task sees it: answering or silent, its process, and its
                         generation
    records.py         Records of the key-value store: their kinds, their keys and their wire form
    run_status.py      Run status: a file in model_dir from which an evaluator, which is outside the cluster, learns
                         the state of the run
    step_ledger.py     Step ledger: it gives a job's remaining steps to workers, a few at a time, and knows who holds
                         which
    succession.py      Succession of a rack's aggregator: which worker of the rack has the role, and when another one
                         takes it
    telemetry.py       Telemetry: the measurements that each task sends with its heartbeats, for the chief's status
                         page
"""
