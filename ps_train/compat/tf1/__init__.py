"""A facade of TensorFlow 1: `tf.layers`, `tf.contrib`, input data, and words for the names that are gone.

The idea: a script's `import tensorflow as tf` finds the names that it was written for.  A name that is absent says in
one line what to use instead.

Data structures: a `Facade` is the module that such a script gets.  A `ContribModule` is a part of `tf.contrib` with
the functions that programs for clusters use.

It changes nothing of TensorFlow, and does not train.

Files:

    absent_names.py           Names of TensorFlow 1 that are absent, and what to use instead
    contrib.py                The modules of `tf.contrib`, with the functions that programs for clusters use
    contrib_layers.py         The functions of `tf.contrib.layers` that programs for clusters use
    contrib_optimize_loss.py  The function `tf.contrib.layers.optimize_loss`
    contrib_rnn.py            The functions of `tf.contrib.rnn` that `tf.nn` has not: layers of recurrent networks in
                                both directions
    contrib_sequences.py      `tf.contrib.feature_column.sequence_input_layer`: columns of sequences as one input of a
                                recurrent network
    facade.py                 A facade of TensorFlow 1: a script's own `import tensorflow as tf` finds the names that
                                it was written for
    layer_variables.py        Variables, scopes and activations that the layers of TensorFlow 1 have in common
    layers.py                 TensorFlow 1's `tf.layers` on `tf.get_variable`: dense, dropout and flatten
    layers_convolution.py     TensorFlow 1's convolutions and poolings of `tf.layers`, on `tf.get_variable`
    layers_normalization.py   TensorFlow 1's `tf.layers.batch_normalization`, on `tf.get_variable`
    legacy.py                 Classes of TensorFlow 1 that tf-keras has kept: layers and cells of recurrent networks
    mnist_input.py            The module `tensorflow.examples.tutorials.mnist.input_data` of TensorFlow 1
"""
