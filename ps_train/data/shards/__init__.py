"""Dynamic sharding: the cut of the data into shards, their assignment, and reading them.

The idea: every decision is a pure function of the owners and the progress that the ps hold, so a restarted worker
goes on where the ps say that it was.

Data structures: a `ShardLayout` cuts a number of examples into shards.  A cursor is the used part of a shard, as one
integer.  An `Assignment` is a shard's examples between two cursors.  A `Reader` gives the examples of assignments.

It does not know how ownership is exchanged: that is in `engine` and `training`; decision 0014.

A partition of data without an end (`data/unbounded`) is a shard, too: its cursor is the offset of its next row.

Files:

    event_cut_policy.py  The policy of cuts by event time: which partitions have reached the next one
    partition_policy.py  The assignment policy of partitions, which a replica keeps until others want their share
    shard_batches.py     Batches of the shards that are assigned to this process, in the order of their assignment
    shard_layout.py      The cut of the data into shards, and the cursor that tells the used part of each shard
    shard_policy.py      The assignment policy of shards: pure functions of the owners and the progress that the ps hold
    shard_readers.py     Readers of assigned examples: Arrays can be read at any index, a Stream by pieces
"""
