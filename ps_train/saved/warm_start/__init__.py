"""Warm start: the variables of a new job begin with the values of another training.

The idea: by name, and by id.  A variable takes the values of the one with its name in a checkpoint, or with the name
that a map gives.  The rows of a table go to the places that their ids have in the new table.  All that does not fit
starts as new, and the report names it.

Data structures: a `Source` is a checkpoint, with TensorFlow 1's parts joined.  A `Choice` is the beginning of one
variable.  A `Route` is the way of a table's rows, computed for any part of them.

It does not know who trained the checkpoint: checkpoints of ps_train say how their tables are laid out, in others row i
is that of id i.  Decision 0047 has the rules.
"""
