"""The names of `tf.train` for clusters: a server that ends, sessions that recover, an exact last step.

The idea: a raw script keeps its graph, server and loop.  Only the names that hurt in a cluster are replaced; all
others are TensorFlow's.

Data structures: `ScriptCluster` is the cluster of a script and this process's task in it.  `TrainingSession` is the
session of a `MonitoredTrainingSession`.  `SyncRounds` is the state of a synchronous round, which a thread of the
chief leads.

It does not train with the engine, of which it uses only the marks of variables; decision 0027.

Files:

    agreed_variables.py   Agreement of a script's workers on what their variables are, before the first step
    device_setter.py      Placement of variables on ps by their bytes, for the classic device function
    finish.py             The end of a worker's training in a script, before its session closes
    global_step.py        The global step of a script, also one that the script made itself as a variable of the name
                            `global_step`
    global_step_runs.py   Analysis of a graph: which calls of `session.run` train, that is, change the global step
    monitored_session.py  The classic `MonitoredTrainingSession`: a session that initializes, recovers, saves and
                            stops
    named_tasks.py        The tasks on which a graph places work by their names, as with
                            `tf.device("/job:worker/task:1")`
    names.py              The names of TensorFlow 1's `tf.train`; those for clusters are made right, the others are
                            `tf.compat.v1.train`'s
    process_end.py        The end of a process where a program of TensorFlow 1 blocks for ever: in a ps, and in
                            `Server.join()`
    server.py             The classic server, whose `join()` ends the process when the job is over
    sessions.py           The classic session manager: it goes back to a checkpoint only if the model is lost, and
                            says so
    stop_at_step.py       The classic hook that ends training at a step, and here at exactly this step, whatever the
                            number of workers
    supervisor.py         The classic `Supervisor`: a session for training with a service that saves
    sync_graph.py         Operations of synchronous training: gradients and messages to the ps, tokens back to each
                            worker
    sync_leader.py        The leader of synchronous training: a thread of the chief that makes the updates and lets
                            the workers go on
    sync_replicas.py      The classic optimizer for synchronous training, made exact
    sync_rounds.py        Rounds of synchronous training: which worker's gradients count for an update, and which
                            worker may go on
"""
