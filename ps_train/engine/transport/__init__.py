"""Pull and push: values to a worker, gradients to a ps, in few messages.

Small variables of a ps travel as one parcel each way, large ones alone, rows of tables by their positions or ids.

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
