"""The doctor: checks of a host and of the way to the others, before a job is started.

The idea: every check is one function that gives findings, each is shown at once, and a later check uses what an
earlier one has found.

Data structures: a `Finding` is one line with a level.  `HostFacts` are limits of this machine.  `PlannedJob` is a
plan with its bytes.  A `PsMeasurement` is what was measured of the way to one ps.

It leaves nothing behind, except for the measured throughput in the model directory.
"""
