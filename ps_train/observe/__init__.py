"""Observation of a job: progress, event files, the status page, health, profiles and the result.

The idea: observation reads.  It must not slow down a step, change a value or end a job because a reader is slow.

Data structures: the board is the present state of the job in the chief; the page, its JSON, Prometheus and
`report.html` are views of it.  A rule of health measures one thing, has a limit, and knows what to do about it.

It does not know how steps are made: others hand it numbers.
"""
