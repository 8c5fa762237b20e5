"""Programs of `tf.distribute`: their strategies, servers and loops, on explicit ps and workers.

The idea: a strategy is a name for a cluster.  A model that is made in its scope is trained by ps_train when its `fit`
is called; everything else that a program does with it runs on one device, as without a strategy.

Data structures: a `ParameterServerStrategy` is a set of flags.  The names of `tf.distribute` that a program finds
under `python -m ps_train run` are a list, and so are the names that Keras 3 has lost.

It does not train: `ps_train/compat/keras` does.
"""
