"""The tables of `tf.contrib.lookup`: from values to their positions, and back.

table = index_table_from_file("words.txt", num_oov_buckets=1)      # a line of the file to its number
words = index_to_string_table_from_file("words.txt")               # a number to the line
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = [
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "string_to_index_table_from_file",
    "string_to_index_table_from_tensor",
]


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = tf.string,
    name: str | None = None,
) -> Any:
    """Returns a table from the values of a 1-D tensor to their positions.

    Args:
      mapping: the values.
      num_oov_buckets: numbers after the positions, for other values by their hash.
      default_value: for other values where there are no such numbers.
      hasher_spec: not used.
      dtype: of the values.
      name: of the table.

    Raises:
      ValueError: mapping is None.
    """
    if mapping is None:
        raise ValueError("mapping=None of index_table_from_tensor: give a 1-D tensor or a list")
    keys = tf.convert_to_tensor(mapping, dtype if dtype == tf.string else None)
    keys = keys if dtype == tf.string else tf.cast(keys, tf.int64)
    positions = tf.range(tf.size(keys, out_type=tf.int64))
    return _table(v1.lookup.KeyValueTensorInitializer(keys, positions), num_oov_buckets, default_value, name)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = None,
    key_dtype: Any = tf.string,
    name: str | None = None,
    key_column_index: int = v1.lookup.TextFileIndex.WHOLE_LINE,
    value_column_index: int = v1.lookup.TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """Returns a table from the lines of a file to their numbers.

    Args:
      vocabulary_file: the file, one value a line.
      num_oov_buckets: as of `index_table_from_tensor`.
      vocab_size: the number of lines to use; None: all.
      default_value: as of `index_table_from_tensor`.
      hasher_spec: not used.
      key_dtype: of the values in the file: string, or integers, which are int64 then.
      name: of the table.
      key_column_index: the column with the value; by default it is the whole line.
      value_column_index: the column with the number; by default it is that of the line, from 0 on.
      delimiter: between columns.

    Raises:
      ValueError: no file is given.
    """
    if not vocabulary_file:
        raise ValueError(f"vocabulary_file={vocabulary_file!r} of index_table_from_file: give the name of a file")
    kind = tf.int64 if tf.as_dtype(key_dtype).is_integer else tf.string
    lines = v1.lookup.TextFileInitializer(
        vocabulary_file, kind, key_column_index, tf.int64, value_column_index, vocab_size, delimiter
    )
    return _table(lines, num_oov_buckets, default_value, name)


string_to_index_table_from_file = index_table_from_file
string_to_index_table_from_tensor = index_table_from_tensor


def index_to_string_table_from_tensor(mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """Returns a table from positions, int64, to the texts of a 1-D tensor.

    Args:
      mapping: the texts.
      default_value: for other positions.
      name: of the table.

    Raises:
      ValueError: mapping is None.
    """
    if mapping is None:
        raise ValueError("mapping=None of index_to_string_table_from_tensor: give a 1-D tensor or a list")
    texts = tf.convert_to_tensor(mapping, tf.string)
    positions = tf.range(tf.size(texts, out_type=tf.int64))
    return v1.lookup.StaticHashTable(v1.lookup.KeyValueTensorInitializer(positions, texts), default_value, name=name)


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = v1.lookup.TextFileIndex.LINE_NUMBER,
    value_column_index: int = v1.lookup.TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> Any:
    """Returns a table from numbers, int64, to the lines of a file.

    Args:
      vocabulary_file: the file, one text a line.
      vocab_size: the number of lines to use; None: all.
      default_value: for other numbers.
      name: of the table.
      key_column_index: the column with the number; by default it is that of the line, from 0 on.
      value_column_index: the column with the text; by default it is the whole line.
      delimiter: between columns.

    Raises:
      ValueError: no file is given.
    """
    if not vocabulary_file:
        raise ValueError(f"vocabulary_file={vocabulary_file!r} of index_to_string_table_from_file: give a file")
    lines = v1.lookup.TextFileInitializer(
        vocabulary_file, tf.int64, key_column_index, tf.string, value_column_index, vocab_size, delimiter
    )
    return v1.lookup.StaticHashTable(lines, default_value, name=name)


def _table(initializer: Any, num_oov_buckets: int, default_value: int, name: str | None) -> Any:
    if num_oov_buckets:
        return v1.lookup.StaticVocabularyTable(initializer, num_oov_buckets, name=name)
    return v1.lookup.StaticHashTable(initializer, default_value, name=name)
