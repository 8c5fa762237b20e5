"""Rows that a model's own `data` reads, such as text in a format of its own.

    data = ModelData("ps_train.models.criteo:DeepFM", {}, "test", "data/criteo", wanted=["label"])

They are one part.  The columns are the labels: `label`, or the names of several.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data.parquet.arrow import pa
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.data.split import Split
from ps_train.data.stream import data_error, with_any_bytes
from ps_train.modeling.load_model import load_model
from ps_train.saved.scoring.rows import Data, Rows, check_columns
from ps_train.saved.scoring.scored_rows import arrow_of

_ONLY, _LABEL = "features", "label"


class _ModelRows(Rows):
    def __init__(self, features: Any, labels: Mapping[str, Any], count: int) -> None:
        self._features, self._labels, self._count = features, labels, count

    def __len__(self) -> int:
        return self._count

    def values(self) -> Mapping[str, Any]:
        return self._features if isinstance(self._features, Mapping) else {_ONLY: self._features}

    def carried(self, columns: Sequence[str] | None) -> dict[str, pa.Array]:
        return {name: arrow_of(self._labels[name]) for name in (self._labels if columns is None else columns)}


class ModelData(Data):
    """A split of a model's data.

    Args:
      path: `package.module:Class`.
      arguments: of its constructor, as texts.
      split: name of the split.
      data_dir: what `data` is given.
      wanted: columns that must be there.

    Raises:
      ModelError: the model cannot be made.
      DataError: there is no such split, or it has no such label.
    """

    def __init__(
        self, path: str, arguments: Mapping[str, str], split: str, data_dir: str, wanted: Sequence[str]
    ) -> None:
        model = load_model(path, arguments)
        self._source = DataSource(lambda: model.data(split, data_dir), 0, Split(split, data_dir, 1))
        self._name = f"{path} {split}"
        self.files, self.parts = [], 1
        first = next(iter(self.read(0, 1)), None)
        if first is None:
            raise DataError(f"data({split!r}, {data_dir!r}) of {path} has no examples: check --data and --split.")
        self.columns: list[str] = list(first._labels)
        check_columns(self.columns, wanted)

    def identity(self) -> list[list[Any]]:
        """Returns the name of the split: its files are not known."""
        return [[self._name]]

    def read(self, part: int, batch_size: int) -> Iterator[_ModelRows]:
        """Yields the examples in the order of the data."""
        with tf.Graph().as_default() as graph:  # left before the first row is given: it belongs to the thread
            data = self._source.get()
            if data is None:
                return
            batches = evaluation_batches(data, batch_size)
        labels = batches.labels if isinstance(batches.labels, Mapping) else {_LABEL: batches.labels}
        kept = {name: value for name, value in labels.items() if isinstance(value, tf.Tensor)}
        with contextlib.closing(v1.Session(graph=graph)) as session:
            try:
                session.run(batches.initializer, batches.feeds())
                while True:
                    with with_any_bytes():
                        features, found, count = session.run([batches.features, kept, batches.examples])
                    yield _ModelRows(features, found, int(count))
            except tf.errors.OutOfRangeError:
                return
            except tf.errors.OpError as error:
                raise data_error(error) or error from None
