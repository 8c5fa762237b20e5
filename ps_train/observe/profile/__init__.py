"""Profiles: the operations of some steps, recorded by every worker and joined on the chief's clock.

The idea: TensorFlow can trace one call.  Now and then a worker asks for that, so the parts of a step's time are
known; with `--profile` each worker traces some calls in a row, and the chief joins them by its own clock.

Data structures: a `StepRecord` is the traced steps of one worker.  A `Segment` is a stretch of a call that belongs to
one part (input, pull, compute, push, wait, update, other).  A `Row` is an event of the trace file.

A fault here never reaches the training.
"""
