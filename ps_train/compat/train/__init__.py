"""The names of `tf.train` for clusters: a server that ends, sessions that recover, an exact last step.

The idea: a raw script keeps its graph, server and loop.  Only the names that hurt in a cluster are replaced; all
others are TensorFlow's.

Data structures: `ScriptCluster` is the cluster of a script and this process's task in it.  `TrainingSession` is the
session of a `MonitoredTrainingSession`.  `SyncRounds` is the state of a synchronous round, which a thread of the
chief leads.

It does not train with the engine, of which it uses only the marks of variables; decision 0027.
"""
