"""Data without an end: sources whose partitions grow while they are read.

The idea: a partition is a shard without an end.  Its cursor is the offset of its next row, kept by the ps and the
checkpoint like that of any shard.  So after any crash each row counts once relative to the model.

Data structures: a `Row` has a value and an offset.  An `UnboundedSource` reads rows of partitions.  A `ReadAhead`
reads those of one worker, and cuts them into batches.

It does not know which worker owns a partition: that is in `data/shards` and `training/loop`.
"""
