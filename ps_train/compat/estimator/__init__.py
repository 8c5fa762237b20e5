"""The Estimator API: train, evaluate, predict, export.  `ps_train.estimator` shows its names.

The idea: the API is that of `tf.estimator`, and the training is the engine's.  `engines.py` is the one place that
chooses between the two.

Data structures: an `Estimator` is a model_fn with a directory and a configuration.  An `EstimatorSpec` is what a
model_fn returns.  Exporters and evaluations are values in `spec/`.

It does not know ps or parcels: a cluster is a `RunConfig`.
"""
