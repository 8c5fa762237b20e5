"""The tables of `tf.contrib.lookup`: from values to their positions, and back.

table = index_table_from_file("words.txt", num_oov_buckets=1)      # a line of the file to its number
words = index_to_string_table_from_file("words.txt")               # a number to the line

TensorFlow has them still, where contrib's own names for two arguments are gone.
"""

from __future__ import annotations

from typing import Any

from ps_train.base.private_tf import lookup_tables

__all__ = [
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "string_to_index_table_from_file",
    "string_to_index_table_from_tensor",
]

_tables = lookup_tables()
index_table_from_file = string_to_index_table_from_file = _tables.index_table_from_file
index_to_string_table_from_file = _tables.index_to_string_table_from_file


def index_table_from_tensor(mapping: Any, *arguments: Any, **options: Any) -> Any:
    """Returns a table from the values of a 1-D tensor to their positions; the further arguments are TensorFlow's."""
    return _tables.index_table_from_tensor(mapping, *arguments, **options)


def index_to_string_table_from_tensor(mapping: Any, *arguments: Any, **options: Any) -> Any:
    """Returns a table from positions, int64, to the texts of a 1-D tensor; the further arguments are TensorFlow's."""
    return _tables.index_to_string_table_from_tensor(mapping, *arguments, **options)


string_to_index_table_from_tensor = index_table_from_tensor
