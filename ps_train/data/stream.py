"""Data that are read during training: too large for memory, and cut into shards at their source.

    class Numbers(Stream):
        def chunks(self, shard, seed):
            dataset = tf.data.Dataset.range(shard.index, 100, shard.count)
            return dataset.batch(10).map(lambda number: ({"number": number}, number % 2))

A stream selects and reads a replica's examples, many at a time.  It does not know epochs, batches or the end of the
input.  `pipeline.py` repeats, shuffles and batches its chunks.  It works on whole chunks, because a pipeline step for
every example would be slow.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ps_train.base.errors import DataError
from ps_train.data.parse_faults import fault_in

T = TypeVar("T")

if TYPE_CHECKING:
    import tensorflow as tf

    from ps_train.data.bad_records import BadRecords
    from ps_train.data.data_shard import DataShard


@dataclasses.dataclass(frozen=True)
class RandomAccessChunks:
    """Data in pieces of moderate size; a process has one piece in memory at a time.

    Attributes:
      count: number of pieces.
      name: an identifier ([A-Za-z0-9_]) that changes whenever the pieces change.
      read: maps a piece's index (int64 scalar tensor) to its `(features, labels)`, always the same; they may be empty.
    """

    count: int
    name: str
    read: Callable[[tf.Tensor], Any]


class Stream(abc.ABC):
    """Data that a model's `data` method may return instead of Arrays.

    Like a dataset, a stream belongs to one graph, so `data` creates one for each graph.

    Attributes:
      description: what all tasks must have in common, such as the number of files; "" is not compared.
      bad_records: the malformed records that the process has skipped; None for a stream that skips none.
    """

    description: str = ""
    bad_records: BadRecords | None = None

    @abc.abstractmethod
    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard.

        Each element is `(features, labels)` whose first dimension is the examples of a chunk, of any number.

        Args:
          shard: the part to read.  The parts of all replicas must be disjoint, and their union must be the data.
          seed: int64 scalar tensor: chunks come in a random order that differs between epochs; None: data order.
        """

    def pieces(self) -> RandomAccessChunks | None:
        """Returns the same data with random access, as --sharding=dynamic needs; None if they have none."""
        return None

    def set_max_bad_lines(self, bad_lines: int) -> None:
        """Sets how many malformed records a process may skip (--max_bad_lines); called before `chunks`."""
        if self.bad_records is not None:
            self.bad_records.limit = bad_lines


def no_autograph(function: T) -> T:
    """Exempts a pipeline's function from AutoGraph; the function must have no Python `if` or `for` over tensors.

    AutoGraph writes each converted function into a temporary file.  That takes time, and a killed process leaves the
    file behind.
    """
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


_PREFIX = "ps_train cannot use the data: "
_UNEQUAL = re.compile(r"Cannot (?:batch tensors|add tensor to the batch).*?(\[[\d,]*\]).*?(\[[\d,]*\])")
"""What TensorFlow says where examples have no common shape."""

_DAMAGED = re.compile(r"(?:corrupted|truncated) record at \d+[^\n]*|(?:inflate|deflate)\(\) failed[^\n]*")
"""What it says of a TFRecord file that is damaged, or not compressed as it should be."""


def pipeline_error(text: str) -> Exception:
    """Returns an error for Python code inside a pipeline to raise.

    TensorFlow keeps only the error's text; `data_error` recovers the message from it.
    """
    return ValueError(f"{_PREFIX}{text}\n")


def assertion(condition: Any, parts: Sequence[Any]) -> tf.Operation:
    """Returns an operation that fails with an error for `data_error` unless a condition holds for all elements.

    Args:
      condition: bool, of any shape.
      parts: the error's text, in parts: texts, and tensors with one element in case of an error.
    """
    import tensorflow as tf

    texts: list[Any] = [_PREFIX]
    for part in parts:  # successive texts are one constant
        if isinstance(part, tf.Tensor):
            texts.append(part)
        elif isinstance(texts[-1], str):
            texts[-1] += str(part)
        else:
            texts.append(str(part))
    return tf.raw_ops.Assert(condition=tf.reduce_all(condition), data=texts)


@contextlib.contextmanager
def with_any_bytes() -> Iterator[None]:
    """Makes an error of a call of TensorFlow whose text is not UTF-8, as one about the user's data, readable.

    TensorFlow quotes the data in the text, and cannot make its own exception of it.

    Raises:
      InvalidArgumentError: instead of a UnicodeDecodeError of such a text; other bytes are shown as escapes.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise readable(error) from None


def readable(error: UnicodeDecodeError) -> tf.errors.InvalidArgumentError:
    """Returns the error of TensorFlow whose text could not be decoded; other bytes are shown as escapes."""
    import tensorflow as tf

    return tf.errors.InvalidArgumentError(None, None, bytes(error.object).decode(errors="backslashreplace"))


def is_pipeline_error(error: Exception) -> bool:
    """Returns True for the error of a call in which a `pipeline_error` was raised."""
    return _PREFIX in own_text(error)


def own_text(error: Exception) -> str:
    """Returns an error's text without the recent log lines of other calls, which TensorFlow adds to it."""
    return str(error).partition("Recent warning and error logs:")[0]


def data_error(error: Exception) -> DataError | None:
    """Returns the data's fault behind an error of `session.run`, or None if there is none.

    It is that of a `pipeline_error`, that examples cannot be batched or parsed, or that a TFRecord file is damaged.
    """
    text = own_text(error)
    if found := re.search(re.escape(_PREFIX) + r"([^\n]*?)\]?(\n|$)", text):  # an assertion adds brackets
        return DataError(re.sub(r"\] \[+([-\d]+)\]+ \[", r"\1", found[1]))  # the tensors of an `assertion`
    if found := _UNEQUAL.search(text):
        return DataError(
            f"examples differ in shape, such as {found[1]} and {found[2]}: give all the same shape, or let the dataset "
            "end with .ragged_batch(64).unbatch(), which makes such values ragged."
        )
    if fault := fault_in(text):
        return DataError(f"an example cannot be parsed: {fault}: correct the data.")
    if found := _DAMAGED.search(text):
        return DataError(f"a TFRecord file is damaged, or compressed in another way ({found[0]}): replace it.")
    return None
