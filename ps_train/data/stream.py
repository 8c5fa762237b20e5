"""Data that are read while they are trained on: too large for memory, and divided among replicas at their source.

    class Numbers(Stream):
        def chunks(self, share, seed):
            dataset = tf.data.Dataset.range(share.index, 100, share.count)
            return dataset.batch(10).map(lambda number: ({"number": number}, number % 2))

A stream says which examples are a replica's and reads them, many at a time.  It knows nothing of epochs, of batches
and of the end of the input: `shard.py` repeats, shuffles and batches the chunks, whole chunks at a time, so that no
step of the pipeline is taken for every single example.
"""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ps_train.errors import DataError

T = TypeVar("T")

if TYPE_CHECKING:
    import tensorflow as tf

    from ps_train.data.data_shard import DataShard


@dataclasses.dataclass(frozen=True)
class RandomAccessChunks:
    """Data in parts of moderate size, of which a process has one in memory.

    Attributes:
      count: how many.
      name: letters, digits and underscores that are others where the pieces are.
      read: given a piece's number (int64 scalar tensor) its `(features, labels)`, always the same; there may be none.
    """

    count: int
    name: str
    read: Callable[[tf.Tensor], Any]


class Stream(abc.ABC):
    """What a model's `data` may return instead of Arrays; made anew for each graph, as a dataset is."""

    @abc.abstractmethod
    def chunks(self, share: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """One pass over a share: `(features, labels)` whose first dimension is the examples of a chunk, of any number.

        The shares of all replicas must be disjoint and together the data.  With a seed (int64 scalar tensor) the
        chunks come in a random order, another one in each pass; without one in the order of the data.
        """

    def pieces(self) -> RandomAccessChunks | None:
        """The same data in pieces that can each be read alone, for --sharding=dynamic; None: there is no such thing."""
        return None

    def set_max_bad_lines(self, bad_lines: int) -> None:  # noqa: B027 (a stream that skips nothing has nothing to do)
        """Called with --max_bad_lines, how many malformed records a process may skip, before `chunks`."""


def no_autograph(function: T) -> T:
    """For the functions of a pipeline that hold no Python `if` or `for` over tensors: TensorFlow rewrites all others
    into a file in the temporary directory, which takes time, and stays there when a process ends at once."""
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


_MARK = "ps_train cannot use the data: "


def pipeline_error(text: str) -> Exception:
    """For Python code inside of a pipeline to raise: TensorFlow passes its text on, and `data_error` finds it."""
    return ValueError(f"{_MARK}{text}\n")


def data_error(error: Exception) -> DataError | None:
    """The `failure` that a pipeline ended with, if that is what an error of `session.run` says."""
    found = re.search(re.escape(_MARK) + r"([^\n]*?)\]?(\n|$)", str(error))  # an assertion puts it into brackets
    return DataError(found[1]) if found else None
