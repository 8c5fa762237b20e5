"""Checkpoints: consistent at one global step, written while workers train, restored into any number of ps.

The idea: a checkpoint is the state at one global step.  The chief holds all pushes while a snapshot is taken: each ps
copies its small variables, and marks its large tables, whose rows updates then keep before they change them.  Threads
write the snapshot, in TensorFlow's format, while training goes on.

Data structures: `PushBarrier` holds the pushes of all workers.  A `Snapshot` has `ShadowCopies` and the old rows of
tables.  A `Chunk` is a group of small variables, or rows of large ones, that one call moves.

It does not decide when to save, except in the hook that asks whether a checkpoint is due.  The decisions are 0005
and 0015.
"""
