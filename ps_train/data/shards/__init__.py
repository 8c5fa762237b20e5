"""Dynamic sharding: the cut of the data into shards, their assignment, and reading them.

Every decision is a pure function of the owners and the progress that the ps hold, so a restarted worker goes on where
the ps say that it was.

Files:

    shard_batches.py  Batches of the shards that are assigned to this process, in the order of their assignment
    shard_layout.py   The cut of the data into shards, and the cursor that tells the used part of each shard
    shard_policy.py   The assignment policy of shards: pure functions of the owners and the progress that the ps hold
    shard_readers.py  Readers of assigned examples: Arrays can be read at any index, a Stream piece by piece
"""
