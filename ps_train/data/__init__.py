"""The input: from what a model's `data()` returns to the batches of one replica.

The idea: a model returns each example once.  Sharding, shuffling, batching and epochs are added here, in the same way
for every source.

Data structures: `Arrays` holds examples in memory.  A `Stream` reads pieces that were cut at their source.
`TFRecords` and `TextLines` are streams of files.  A `DataShard` names the part of one replica under static sharding.
`sent/` has the data of a Keras fit, which come in whole batches.

It does not know models, variables or ps.  A new file format is one file here.
"""

from __future__ import annotations

from ps_train.data import criteo, digits, idx
from ps_train.data.stream import RandomAccessChunks, Stream, pipeline_error
from ps_train.data.unbounded.source import Row, UnboundedSource

__all__ = ["RandomAccessChunks", "Row", "Stream", "UnboundedSource", "criteo", "digits", "idx", "pipeline_error"]
