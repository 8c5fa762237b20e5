"""Pull and push: values to a worker, gradients to a ps, in few messages.

The idea: the cost of a small step is its messages, so the small variables of a ps travel as one parcel each way.
Variables of 1 MiB and more travel alone, so that sending and applying overlap.  Rows of tables travel by position or
id, each once.

Data structures: a `Parcel` is a vector of slices of one ps and dtype, with an optional header.  A `ReceivedPush` is
all that one push brings to one ps: parcels, rows, progress in the data, state of the model.  A `RowExchange` answers
all lookups of a step.

It does not know update modes or optimizers.  A codec changes the bytes of a vector, and nothing else.

Files:

    codecs/           Codecs: fewer bytes for the numbers of a vector
    coding.py         The encoding of everything that one replica pulls and pushes
    dense.py          Pull of values to a worker and push of gradients to a ps, in a few parcels instead of one
                        message a variable
    model_state.py    State that a model assigns itself, in forward() or loss(), such as moving averages and counters
    parcels.py        Parcels: slices of one ps that travel together as one vector (a fusion buffer in Horovod, a
                        bucket in DDP)
    pull_encoding.py  The encoding of what workers pull: a ps encodes a vector, the worker decodes it
    push_encoding.py  The encoding of the pushes to one ps: which parcels are encoded, and how they travel
    received_push.py  One push as a ps receives it: parcels, rows of tables, progress and state
    row_exchange.py   The transport of table rows to a worker and of their gradients to the ps
    sparse_mask.py    Row masks: the touched rows of a sparse gradient that is sent as a dense one
    vocabulary.py     A slice of an open vocabulary on its ps: the rows of ids in a pull, and their admission in an
                        update
"""
