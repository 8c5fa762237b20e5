"""Deltas: the exact difference of two checkpoints or SavedModels, and the way back.

The idea: both are read in the same parts of 32 MiB.  A delta has the rows of each part that differ in a bit, and the
hashes of both whole contents.  So a chain of deltas proves itself: hash(base) + delta -> hash(next).  A served model
follows it (`following.py`).

Data structures: a `Saved` is a checkpoint or a SavedModel, and `CheckpointValues` reads its variables in `RowRun`s.  A
`Manifest` says what a delta has and what it leads from and to.

It does not know models, jobs or ps: tables, slots and vocabularies are rows of variables.
"""
