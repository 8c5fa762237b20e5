"""The graph of a step: variables on the ps, their transport, the updates, and the checkpoints.

The idea: only the transport is fused.  Variables are ordinary TensorFlow variables on their ps, so every optimizer of
`tf.compat.v1`, slots, `tf.train.load_checkpoint` and SavedModels keep working.  The worker computes on values that
were pulled, and each ps applies what arrives under its own lock.

Data structures: a `Plan` says where each variable, or slice of one, lives.  A parcel is a vector of many small slices
that travels as one message.  A `ReceivedPush` is what arrives at a ps.  An `UpdateMode` decides when a gradient
becomes a new value.

It does not know processes, heartbeats or the training loop: it builds graphs, and others run them.  Only
`checkpoint/` (saves, restores) and `run_directory/` (uploads) start threads.
"""
