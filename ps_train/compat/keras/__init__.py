"""Keras programs on parameter servers: `fit`, its callbacks, and what stays in the user's model.

The idea: Keras's own callbacks, metrics and validation run in the chief's process, on the user's model object.  The
training runs elsewhere, from the graph of the model's step.

Data structures: an `EpochDriver` calls the callbacks.  A `Cluster` brings values to the model and back.

It does not know how a step is made: `modeling/keras` does.
"""
