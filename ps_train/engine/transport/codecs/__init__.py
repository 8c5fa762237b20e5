"""Codecs: fewer bytes for the numbers of a vector.

The idea: a codec maps a vector and a seed to a few tensors, and back.  It is pure, so each is tested against numpy.

Data structures: `Codec` is the interface, `Chain` encodes the first tensor of one codec by another.  `ErrorFeedback`
keeps what a lossy push leaves out, and adds it to the next gradient; it is the only state.

A codec does not know variables, ps or steps.
"""
