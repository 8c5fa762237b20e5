"""Contents of a checkpoint: the shape and dtype of each key, and its values, whole or by rows.

values = CheckpointValues("/models/run1/model.ckpt-500")        # or the variables of a SavedModel
values.kinds["hidden/w"]                                        # ([784, 128], tf.float32)
values.read("hidden/w", 100, 50)                                # numpy [50, 128]
values.restore(session, tf.compat.v1.global_variables())        # into the variables of a plain graph
"""

from __future__ import annotations

import functools
import glob
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DamagedCheckpointError, ModelError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.engine.run_directory.glob_free import glob_free
from ps_train.engine.variables.variables import OF_PS, CheckpointEntry, keys_in, keys_like, rows_spec
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE

log = logging.getLogger(__name__)

DAMAGED_ERRORS = (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.NotFoundError)

GLOBAL_STEP = "global_step"

RUN_KEY = "ps_train/run"
"""Key of the id of a checkpoint's run and its generation."""

LAYOUTS_KEY = "ps_train/tables"
"""Key of the layouts of a checkpoint's tables; see `modeling/tables/table_layout.py`."""

EVENT_CUT_KEY = "ps_train/event_cut"
"""Key of the last and the next cut by event time, int64 [2]; where the next one is 0, the checkpoint is the last."""

Kind = tuple[list[int], tf.DType]
"""Shape and dtype of a key."""

CHUNK_BYTES = 32 << 20
"""Size of the parts in which large variables are moved: so large that the costs of each message and file are small."""

SLICED_DTYPES = frozenset(
    [tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.bool]
    + [tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.qint8, tf.quint8, tf.qint32]
)
"""Dtypes of which TensorFlow 2.21 can restore slices other than those it saved.  float16 is not among them."""


def row_runs(rows: int, most: int) -> Iterator[tuple[int, int]]:
    """Gives the first row and the number of rows of each part of `most` rows; the last one may have fewer."""
    for begin in range(0, rows, most):
        yield begin, min(most, rows - begin)


class CheckpointValues:
    """The variables of one checkpoint; threads may read at once.

    Args:
      path: path of the checkpoint.

    Attributes:
      path: path of the checkpoint.
      kinds: key to shape and dtype.

    Raises:
      DamagedCheckpointError: it is damaged, or not a checkpoint.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.kinds = read_kinds(path)
        except DAMAGED_ERRORS as error:
            raise self._damaged(error) from None

    @property
    def global_step(self) -> int:
        """The global step; -1 if there is none, as in a SavedModel."""
        return int(self.read(GLOBAL_STEP)) if GLOBAL_STEP in self.kinds else -1

    def rows_at_once(self, key: str) -> int:
        """Returns the number of rows of a variable that CHUNK_BYTES have; at least 1."""
        shape, dtype = self.kinds[key]
        return max(1, CHUNK_BYTES // max(1, math.prod(shape[1:]) * dtype.size))

    def read(self, key: str, begin: int = 0, count: int = -1) -> np.ndarray[Any, Any]:
        """Returns rows of a variable, numpy [count, ...]; -1: the whole value.

        Memory is that of the rows for a variable that is stored in parts, and of a dtype in SLICED_DTYPES.

        Raises:
          DamagedCheckpointError: the file is damaged.
        """
        shape, dtype = self.kinds[key]
        is_whole = count < 0 or not shape or (begin == 0 and count == shape[0])
        by_rows = not is_whole and dtype in SLICED_DTYPES
        session, value, path, name, slices = _restoring(dtype)
        spec = rows_spec(shape, begin, count) if by_rows else ""
        try:
            with glob_free(self.path) as readable:
                found = session.run(value, {path: readable, name: key, slices: spec})
        except DAMAGED_ERRORS as error:
            raise self._damaged(error) from None
        array = np.asarray(found, object if dtype == tf.string else None)
        return array if is_whole or by_rows else array[begin : begin + count]

    def restore(self, session: v1.Session, variables: Sequence[Any] | Mapping[str, Any]) -> None:
        """Restores a plain graph's variables, which were trained on any topology.

        Values that are computed from variables (`plain_vocabulary.AFTER_RESTORE`) are computed afterwards.

        Args:
          session: a session of the plain graph.
          variables: key to variable; in a sequence each variable's key is the name of its operation.

        Raises:
          ModelError: the checkpoint belongs to another model.
          DamagedCheckpointError: the file is damaged.
        """
        named = variables if isinstance(variables, Mapping) else {variable.op.name: variable for variable in variables}
        if not named:
            return
        check_variables(self.path, named, self.kinds)
        names, dtypes = list(named), [v.dtype.base_dtype for v in named.values()]
        slices = [""] * len(names)
        try:
            with glob_free(self.path) as path:
                found = tf.raw_ops.RestoreV2(prefix=path, tensor_names=names, shape_and_slices=slices, dtypes=dtypes)
                session.run([v.assign(value, read_value=False) for v, value in zip(named.values(), found, strict=True)])
        except DAMAGED_ERRORS as error:
            raise self._damaged(error) from None
        session.run(v1.get_collection(AFTER_RESTORE))

    def _damaged(self, error: Exception) -> DamagedCheckpointError:
        return DamagedCheckpointError(f"checkpoint {self.path} is damaged or incomplete ({cause_of(error)})")


@functools.cache
def _restoring(dtype: tf.DType) -> tuple[v1.Session, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns a session, the tensor of a dtype that it reads, and the placeholders of the path, key and slice.

    A graph of its own works also where eager execution is disabled, or the default graph is finalized.
    """
    with tf.Graph().as_default() as graph, tf.device("/device:CPU:0"):
        path, name, slices = (v1.placeholder(tf.string, []) for _ in range(3))
        (value,) = tf.raw_ops.RestoreV2(prefix=path, tensor_names=[name], shape_and_slices=[slices], dtypes=[dtype])
        return v1.Session(graph=graph, config=v1.ConfigProto(device_count={"GPU": 0})), value, path, name, slices


_READER_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, IndexError, MemoryError)
"""What TensorFlow's reader raises for damaged files; it believes their sizes, and may ask for too much memory."""


def read_kinds(path: str) -> dict[str, Kind]:
    """Returns the shape and dtype of each key of a checkpoint.

    Raises:
      DataLossError: any error of TensorFlow about a truncated or foreign file.
    """
    try:
        if odd := [file for file in glob.glob(glob.escape(path) + ".*") if not os.path.isfile(file)]:
            raise ValueError(f"{odd[0]} is not a file")  # opening a FIFO would wait for ever
        with glob_free(path) as readable:
            reader = tf.train.load_checkpoint(readable)
            dtypes = reader.get_variable_to_dtype_map()
            return {key: (list(shape), dtypes[key]) for key, shape in reader.get_variable_to_shape_map().items()}
    except _READER_ERRORS as error:
        raise tf.errors.DataLossError(None, None, str(error)) from None


def small_value(path: str, key: str, default: Any) -> Any:
    """Returns a whole value of a checkpoint, by a reader without threads: this process may be forked afterwards.

    Raises:
      tf.errors.OpError, ValueError and others: the file is damaged, or not a checkpoint.
    """
    with glob_free(path) as readable:
        reader = tf.train.load_checkpoint(readable)
        return reader.get_tensor(key) if reader.has_tensor(key) else default


def examples_of(path: str) -> float:
    """Returns the number of examples that a checkpoint was trained with; 0 if it does not tell."""
    try:
        return float(small_value(path, "ps_train/examples", 0.0))
    except _READER_ERRORS:
        return 0.0


_ANOTHER = "it is of another model: use the --model and --model_arg of its job, or another --model_dir."


def check_kind(path: str, key: str, found: Kind, wanted: Kind) -> None:
    """Checks a key's shape and dtype in a checkpoint against the model's.

    Raises:
      ModelError: they differ.
    """
    if found[0] != wanted[0]:
        raise ModelError(f"checkpoint {path} has {key} of shape {found[0]}, the model of {wanted[0]}: {_ANOTHER}")
    if found[1] != wanted[1]:
        raise ModelError(
            f"checkpoint {path} has {key} of dtype {found[1].name}, the model of {wanted[1].name}: {_ANOTHER}"
        )


def check_variables(path: str, variables: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Checks that a checkpoint has the values of a plain graph's variables.

    Args:
      path: path of the checkpoint, for errors.
      variables: key to variable.
      kinds: key to shape and dtype in the checkpoint.

    Raises:
      ModelError: the checkpoint belongs to another model.
    """
    missing = sorted(variables.keys() - kinds.keys())
    if missing:
        raise ModelError(f"checkpoint {path} has no {', '.join(missing[:5])}: {_ANOTHER}")
    for key, variable in variables.items():
        check_kind(path, key, kinds[key], (variable.shape.as_list(), variable.dtype.base_dtype))


def check_entries(path: str, entries: Sequence[CheckpointEntry], kinds: Mapping[str, Kind]) -> None:
    """Checks that a checkpoint belongs to a model; otherwise it would look like a damaged file.

    Raises:
      ModelError: it belongs to another one.
    """
    keys = keys_in(kinds, entries)
    for entry in (entry for entry in entries if entry.advice and entry.key not in kinds):
        like = [key for key in kinds if key.startswith(os.path.dirname(entry.key) + "/")]
        raise ModelError(f"checkpoint {path} has {', '.join(like) or 'nothing'} for {entry.key}: {entry.advice}")
    missing = sorted({key for key, entry in zip(keys, entries, strict=True) if not entry.optional} - kinds.keys())
    if missing:
        raise ModelError(
            f"checkpoint {path} has no {', '.join(missing[:5])}: it is of another model or optimizer, or of a job with "
            "--local_steps, whose workers keep their slots; use another --model_dir, and --warm_start for its values."
        )
    for key, entry in zip(keys, entries, strict=True):
        if key in kinds:
            check_kind(path, key, kinds[key], (entry.full_shape, entry.variable.dtype.base_dtype))
    former = {key for pattern in {entry.former for entry in entries} for key in keys_like(kinds, pattern)}
    unused = sorted(kinds.keys() - {entry.key for entry in entries} - former)
    known = (RUN_KEY, LAYOUTS_KEY, EVENT_CUT_KEY)
    if unused := [key for key in unused if not key.startswith(OF_PS) and key not in known]:
        log.warning(
            "checkpoint %s has values that this job does not use, and drops (%s; %d in all): it was saved with "
            "another --optimizer, --sharding, --batch_size or model; use the same flags to keep them",
            path, ", ".join(unused[:3]), len(unused),
        )  # fmt: skip
