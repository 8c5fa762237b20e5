"""Pull and push: values to a worker, gradients to a ps, in few messages.

The idea: the cost of a small step is its messages, so the small variables of a ps travel as one parcel each way.
Variables of 1 MiB and more travel alone, so that sending and applying overlap.  Rows of tables travel by position or
id, each once.

Data structures: a `Parcel` is a vector of slices of one ps and dtype, with an optional header.  A `ReceivedPush` is
all that one push brings to one ps: parcels, rows, progress in the data, state of the model.  A `RowExchange` answers
all lookups of a step.

It does not know update modes or optimizers.  A codec changes the bytes of a vector, and nothing else.
"""
