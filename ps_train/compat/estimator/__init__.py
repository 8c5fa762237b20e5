"""The Estimator API: train, evaluate, predict, export.  `ps_train.estimator` shows its names.

The idea: the API is that of `tf.estimator`, and the training is the engine's.  `engines.py` is the one place that
chooses between the two.

Data structures: an `Estimator` is a model_fn with a directory and a configuration.  An `EstimatorSpec` is what a
model_fn returns.  Exporters and evaluations are values in `spec/`.

It does not know ps or parcels: a cluster is a `RunConfig`.

Files:

    spec/                    The values of the Estimator API: configurations, specifications, exporters
    canned.py                The canned models of `tf.estimator`: the classes and heads of tensorflow-estimator 2.15.0
                               on this Estimator
    checkpoint_evaluator.py  Evaluations and exports of the newest checkpoint
    early_stopping.py        Hooks that end the training early, as results of evaluations suggest
    engines.py               The engines that train an Estimator: ps_train's own, and TensorFlow's
    estimator.py             An Estimator: a model, as a function, that is trained, evaluated, used and exported from
                               one directory
    evaluation.py            Evaluation of an Estimator: metrics over batches of data, returned and written as events
    evaluator_loop.py        The evaluator of `train_and_evaluate` as a process of its own, outside of the cluster
    experimental.py          Names of `tf.estimator.experimental`: hooks that end the training early
    export.py                Receivers of requests, for exports: the tensors that a request feeds, and the features
                               that come from them
    export_saved_model.py    Export of an Estimator's model as a SavedModel, which serves without this package
    inputs.py                Input functions for arrays and data frames in memory
    names.py                 Names of `tf.estimator`: those of this package, hooks of TensorFlow, and canned models
                               where they are installed
    prediction.py            Prediction of an Estimator: one result for each example, or for each batch
    sliced_evaluation.py     Metrics of parts of an Estimator's evaluation data: one part for each frequent value of
                               a feature
    train_and_evaluate.py    Training, evaluation and export by one call, in one process or as any task of a cluster
    training_executor.py     The class behind `train_and_evaluate` of TensorFlow 1, which libraries call with a listener
                               of their own
"""
