"""Exports in use: a SavedModel that predicts for arrays.

The idea: a signature has plain tensors.  A ragged or sparse feature is several of them, by the names of
`data/served_features.py`.  Here they are features again, and values are checked before TensorFlow sees them.

Data structures: an `Exported` is a loaded SavedModel.  A feature's value is a numpy array, a `Ragged` or a `Sparse`.

It does not know models, jobs, files of data or training.
"""
