"""Codecs: fewer bytes for the numbers of a vector.

The idea: a codec maps a vector and a seed to a few tensors, and back.  It is pure, so each is tested against numpy.

Data structures: `Codec` is the interface, `Chain` encodes the first tensor of one codec by another.  `ErrorFeedback`
keeps what a lossy push leaves out, and adds it to the next gradient; it is the only state.

A codec does not know variables, ps or steps.

Files:

    cast.py      Cast: float32 travels as a dtype of 16 bits, rounded to the nearest value
    chosen.py    One of several codecs, chosen anew in each step
    codec.py     The interface of a codec, and the chain of two
    feedback.py  Error feedback: what a push leaves out is kept on the worker and added to the next one
    int8.py      int8 with one scale for each block of 256 values, and unbiased rounding
    top_k.py     The largest values of a vector, by magnitude, and their positions
    wire.py      Several vectors as one tensor of bytes: each tensor between two processes is a message of its own
"""
