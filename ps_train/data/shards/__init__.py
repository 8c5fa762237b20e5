"""Dynamic sharding: the cut of the data into shards, their assignment, and reading them.

The idea: every decision is a pure function of the owners and the progress that the ps hold, so a restarted worker
goes on where the ps say that it was.

Data structures: a `ShardLayout` cuts a number of examples into shards.  A cursor is the used part of a shard, as one
integer.  An `Assignment` is a shard's examples between two cursors.  A `Reader` gives the examples of assignments.

It does not know how ownership is exchanged: that is in `engine` and `training`; decision 0014.

A partition of data without an end (`data/unbounded`) is a shard, too: its cursor is the offset of its next row.
"""
