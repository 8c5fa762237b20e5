"""Exports: a SavedModel out of the variables of a training.

The idea: a forward graph of the model, in which each variable is filled from a checkpoint or from the ps, table by
table.  Large tables are split among files, and their rows may be saved in fewer bytes, which the graph decodes.

Data structures: a fingerprint is the hash of the files of an export.

It does not know when a job exports, nor which checkpoint is the best.
"""
