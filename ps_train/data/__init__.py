"""The input: from what a model's `data()` returns to the batches of one replica.

The idea: a model returns each example once.  Sharding, shuffling, batching and epochs are added here, in the same way
for every source.

Data structures: `Arrays` holds examples in memory.  A `Stream` reads pieces that were cut at their source.
`TFRecords` and `TextLines` are streams of files.  A `DataShard` names the part of one replica under static sharding.

It does not know models, variables or ps.  A new file format is one file here.

Files:

    criteo/             The format of the Criteo Display Advertising Challenge: one click record a line, in 40 columns
                          separated by tabs
    parquet/            Parquet files, divided by rows: row groups as shards, columns as tensors
    shards/             Dynamic sharding: the cut of the data into shards, their assignment, and reading them
    unbounded/          Data without an end: Kafka, growing directories, and sources of users
    arrays.py           Data in memory
    bad_records.py      Malformed records of the input: counted, shown, and refused above a limit
    data_shard.py       The part of the data that one replica reads under static sharding
    digits.py           The handwritten digits that ship with the package: 1,797 images of 8x8
    dynamic_batches.py  Batches whose size is read when they are made: tf.data's part of a batch size that follows the
                          network
    example_rows.py     Rows of the values of many examples: dense, ragged or sparse tensors [examples, ...]
    file_names.py       The files that patterns of names stand for
    gzip_files.py       Gzipped files, recognised by their first bytes
    idx.py              Reader of IDX files, the format of MNIST and similar data sets, plain or gzipped
    input_result.py     Features and labels of an input_fn's result, with the hook that starts its Dataset
    named_inputs.py     Names of the tensors of a batch, for errors about the user's data
    opened_files.py     Data files for reading, wherever they are: on local disks, TensorFlow's file systems, and
                          those of fsspec
    parse_faults.py     The fault of a record that TensorFlow cannot parse, in words for the user
    pipeline.py         The input pipeline: each replica's shard of the data, shuffled and batched
    record_check.py     Check that a TFRecord file has been read to its end, with words for what is wrong with it
    record_files.py     Files of records as data, divided among the replicas: TFRecord files and text files
    record_index.py     Places of the records of a TFRecord file, so that a replica can begin to read in the middle
    record_parser.py    Parsing of records by a user's function, which may fail on some of them
    served_features.py  The features of a model as its export takes them: by their names, or from serialized
                          `tf.train.Example`s
    split.py            A split of a job's data, and the checks of its data that need no example: is it empty, endless
                          or batched already?
    stream.py           Data that are read during training: too large for memory, and cut into shards at their source
    text_lines.py       Each replica's lines of a list of text files, plain or gzipped, read many lines at a time
    wrong_data.py       The error for data that a model's `data` returned and that the input cannot read, with the
                          line that converts them
"""

from __future__ import annotations

from ps_train.data import criteo, digits, idx
from ps_train.data.stream import RandomAccessChunks, Stream, pipeline_error
from ps_train.data.unbounded.source import Row, UnboundedSource

__all__ = ["RandomAccessChunks", "Row", "Stream", "UnboundedSource", "criteo", "digits", "idx", "pipeline_error"]
