"""A facade of TensorFlow 1: `tf.layers`, `tf.contrib`, input data, and words for the names that are gone.

The idea: a script's `import tensorflow as tf` finds the names that it was written for.  A name that is absent says in
one line what to use instead.

Data structures: a `Facade` is the module that such a script gets, and each module of it is a `LazyModule`.  A
`ContribModule` is a part of `tf.contrib` with the functions that programs for clusters use.

It does not train.

Files:

    absent_names.py           Names of TensorFlow 1 that are absent, and what to use instead
    classic_modules.py        Classes that a program reaches under two names: by `tf.train`, and by the private module
                                that had them
    contrib.py                The modules of `tf.contrib`, with the functions that programs for clusters use
    contrib_crf.py            The functions of `tf.contrib.crf`: a conditional random field over the tags of a sequence
    contrib_data.py           The functions of `tf.contrib.data` that `tf.data` has under other names
    contrib_hparams.py        The names of `tf.contrib.training` for hyperparameters: `HParams`, and the reader of
                                their texts
    contrib_layers.py         The functions of `tf.contrib.layers` that programs for clusters use
    contrib_learn.py          The names of `tf.contrib.learn` that run an Estimator of `tf.estimator`: Experiment,
                                learn_runner and RunConfig
    contrib_learn_datasets.py  The names of `tf.contrib.learn.datasets`: data by name, and tables from CSV files
    contrib_lookup.py         The tables of `tf.contrib.lookup`: from values to their positions, and back
    contrib_metrics.py        The functions of `tf.contrib.metrics`: metrics over many batches, whose predictions come
                                before the labels
    contrib_optimize_loss.py  The function `tf.contrib.layers.optimize_loss`
    contrib_opt.py            The optimizers of `tf.contrib.opt`
    contrib_predictor.py      The functions of `tf.contrib.predictor`: a saved model as a function of NumPy arrays
    contrib_refused.py        The names of `tf.contrib` for TPUs and strategies, which are refused when they are used
    contrib_rnn.py            The names of `tf.contrib.rnn` that `tf.nn` has not: layers of recurrent networks in both
                                directions, and two cells
    contrib_seq2seq.py        The function `tf.contrib.seq2seq.sequence_loss`
    contrib_sequences.py      `tf.contrib.feature_column.sequence_input_layer`: columns of sequences as one input of a
                                recurrent network
    contrib_tpu.py            The names of `tf.contrib.tpu` for programs that can also train without TPUs:
                                `TPUEstimator(use_tpu=False)`
    estimator_modules.py      The modules of TensorFlow 1's Estimators, which libraries import one by one
    facade.py                 A facade of TensorFlow 1: a script's own `import tensorflow as tf` finds the names that
                                it was written for
    hparam_messages.py        The message `HParamDef` of `tf.contrib.training`, in which programs for TensorFlow 1 store
                                hyperparameters
    layer_variables.py        Variables, scopes and activations that the layers of TensorFlow 1 have in common
    layers.py                 TensorFlow 1's `tf.layers` on `tf.get_variable`: dense, dropout and flatten
    layers_convolution.py     TensorFlow 1's convolutions and poolings of `tf.layers`, on `tf.get_variable`
    layers_normalization.py   TensorFlow 1's `tf.layers.batch_normalization`, on `tf.get_variable`
    lazy_module.py            A module whose names are found as they are used
    legacy.py                 Parts of TensorFlow 1 that other packages have kept: tf-keras the layers and cells,
                                tf-slim `tf.contrib.slim`
    lost_names.py             Names that NumPy and Python have lost since TensorFlow 1
    mnist_input.py            The module `tensorflow.examples.tutorials.mnist.input_data` of TensorFlow 1
    mnist_network.py          The module `tensorflow.examples.tutorials.mnist.mnist` of TensorFlow 1: a network with two
                                hidden layers
    moved_modules.py          Modules that TensorFlow has moved since TensorFlow 1, under the names by which libraries
                                import them
    old_names.py              Names of TensorFlow before 1.0, under which it still has the same functions
    refused_use.py            Classes and functions that say what to write when they are used
    variables.py              Variables of TensorFlow 1: each one is a `tf.Variable`, and an imported graph gives values
                                by their names
"""
