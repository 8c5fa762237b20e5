"""A facade of TensorFlow 1: `tf.layers`, `tf.contrib`, input data, and words for the names that are gone.

The idea: a script's `import tensorflow as tf` finds the names that it was written for.  A name that is absent says in
one line what to use instead.

Data structures: a `Facade` is the module that such a script gets, and each module of it is a `LazyModule`.  A
`ContribModule` is a part of `tf.contrib` with the functions that programs for clusters use.

It does not train.
"""
