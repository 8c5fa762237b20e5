"""Profiles: the operations of some steps, recorded by every worker and joined on the chief's clock.

The idea: TensorFlow can trace one call.  Now and then a worker asks for that, so the parts of a step's time are
known; with `--profile` each worker traces some calls in a row, and the chief joins them by its own clock.

Data structures: a `StepRecord` is the traced steps of one worker.  A `Segment` is a stretch of a call that belongs to
one part (input, pull, compute, push, wait, update, other).  A `Row` is an event of the trace file.

A fault here never reaches the training.

Files:

    profile.py        The profile of a job's steps (--profile): each worker records its own, and the chief joins them
                        into one trace
    step_parts.py     Parts of a step's time, from TensorFlow's step statistics of one call
    step_record.py    The record of one worker's traced steps, as it travels to the chief, and what the chief makes of
                        all of them
    step_tracer.py    Calls that TensorFlow traces: one now and then for the parts of a step's time, and those that
                        --profile asks for
    trace_file.py     A trace as files: Chrome's trace events, which Perfetto opens, and the XSpace of TensorBoard's
                        trace viewer
"""
