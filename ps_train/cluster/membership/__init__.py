"""The knowledge that tasks share: records, leases, heartbeats, membership and the steps of a job.

The idea: a task proves that it lives by changing a record.  A reader compares what it has seen with its own clock, so
the clocks of machines need not agree.  The chief alone decides who is a member.

Data structures: a record is a small JSON value in the key-value store of a ps.  A lease is a record that one process
holds for a task.  The membership is the set of tasks that rounds wait for.  The steps that remain are a record too.

It does not know graphs or variables.
"""
