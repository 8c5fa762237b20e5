"""The graph of a step: variables on the ps, their transport, the updates, and the checkpoints.

The idea: only the transport is fused.  Variables are ordinary TensorFlow variables on their ps, so every optimizer of
`tf.compat.v1`, slots, `tf.train.load_checkpoint` and SavedModels keep working.  The worker computes on values that
were pulled, and each ps applies what arrives under its own lock.

Data structures: a `Plan` says where each variable, or slice of one, lives.  A parcel is a vector of many small slices
that travels as one message.  A `ReceivedPush` is what arrives at a ps.  An `UpdateMode` decides when a gradient
becomes a new value.

It does not know processes, heartbeats or the training loop: it builds graphs, and others run them.

Files:

    checkpoint/  Checkpoints: consistent at one global step, written while workers train, restored into any number of
                   ps
    serving/     Exports in use: a SavedModel that predicts for arrays
    step/        The graph of one replica: the training step, several steps in one call, and the evaluation
    transport/   Pull and push: values to a worker, gradients to a ps, in few messages
    updates/     Update modes: the rules by which pushed gradients become new values
    variables/   A model's variables: found in a scratch graph, planned, created on their ps, initialized
"""
