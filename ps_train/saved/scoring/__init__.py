"""Scoring: predictions of exported models for files, and the comparison of two models.

The idea: the files are cut into parts, always the same ones, and a part becomes chunks of the result.  A chunk has its
name when it is complete.  So any number of processes work on a command, and the same command goes on with it.

Data structures: a `DataSpec` names files, and `Data` gives their rows part by part.  A `Plan` is a command, and a
`Scoring` has its model, its data and the format of its result.

It does not know training, jobs or checkpoints.
"""
