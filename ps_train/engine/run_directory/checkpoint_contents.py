"""Contents of a checkpoint: the shape and dtype of each key, and its values for a plain graph.

shapes_and_dtypes("/models/run1/model.ckpt-500")            # {"hidden/w": ([784, 128], tf.float32), ...}
restore_into(session, tf.compat.v1.global_variables(), "/models/run1/model.ckpt-500")
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DamagedCheckpointError, ModelError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.engine.run_directory.glob_free import glob_free
from ps_train.engine.updates.shards.event_cut_table import EVENT_CUT_KEY
from ps_train.engine.variables.variables import OF_PS, CheckpointEntry, keys_in, keys_like
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE

log = logging.getLogger(__name__)

DAMAGED_ERRORS = (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.NotFoundError)

RUN_KEY = "ps_train/run"
"""Key of the id of a checkpoint's run and its generation."""

LAYOUTS_KEY = "ps_train/tables"
"""Key of the layouts of a checkpoint's tables; see `modeling/tables/table_layout.py`."""

Kind = tuple[list[int], tf.DType]
"""Shape and dtype of a key."""


def shapes_and_dtypes(path: str) -> dict[str, Kind]:
    """Returns the shape and dtype of each key of a checkpoint.

    Raises:
      DamagedCheckpointError: the file is damaged, or not a checkpoint.
    """
    try:
        return read_kinds(path)
    except DAMAGED_ERRORS as error:
        raise damaged_error(path, error) from None


def damaged_error(path: str, error: Exception) -> DamagedCheckpointError:
    """Makes the error for a damaged checkpoint from TensorFlow's error."""
    return DamagedCheckpointError(f"checkpoint {path} is damaged or incomplete ({cause_of(error)})")


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


def examples_of(path: str) -> float:
    """Returns the number of examples that a checkpoint was trained with; 0 if it does not tell."""
    try:
        with glob_free(path) as readable:
            return float(tf.train.load_checkpoint(readable).get_tensor("ps_train/examples"))
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


def restore_into(session: v1.Session, variables: Sequence[Any] | Mapping[str, Any], path: str) -> None:
    """Restores a plain graph's variables from a checkpoint of any topology.

    Values that are computed from variables (`plain_vocabulary.AFTER_RESTORE`) are computed afterwards.

    Args:
      session: a session of the plain graph.
      variables: key to variable; in a sequence each variable's key is the name of its operation.
      path: path of the checkpoint.

    Raises:
      ModelError: the checkpoint belongs to another model.
      DamagedCheckpointError: the file is damaged, or not a checkpoint.
    """
    named = variables if isinstance(variables, Mapping) else {variable.op.name: variable for variable in variables}
    if not named:
        return
    try:
        check_variables(path, named, read_kinds(path))
        names, dtypes = list(named), [v.dtype.base_dtype for v in named.values()]
        slices = [""] * len(names)
        with glob_free(path) as readable:
            found = tf.raw_ops.RestoreV2(prefix=readable, tensor_names=names, shape_and_slices=slices, dtypes=dtypes)
            session.run([v.assign(value, read_value=False) for v, value in zip(named.values(), found, strict=True)])
    except DAMAGED_ERRORS as error:
        raise damaged_error(path, error) from None
    session.run(v1.get_collection(AFTER_RESTORE))


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
            f"checkpoint {path} has no {', '.join(missing[:5])}: it is of another model or optimizer; "
            "use another --model_dir."
        )
    for key, entry in zip(keys, entries, strict=True):
        if key in kinds:
            check_kind(path, key, kinds[key], (_full_shape(entry), entry.variable.dtype.base_dtype))
    former = {key for pattern in {entry.former for entry in entries} for key in keys_like(kinds, pattern)}
    unused = sorted(kinds.keys() - {entry.key for entry in entries} - former)
    known = (RUN_KEY, LAYOUTS_KEY, EVENT_CUT_KEY)
    if unused := [key for key in unused if not key.startswith(OF_PS) and key not in known]:
        log.warning(
            "checkpoint %s has values that this job does not use, and drops (%s; %d in all): it was saved with "
            "another --optimizer, --sharding, --batch_size or model; use the same flags to keep them",
            path, ", ".join(unused[:3]), len(unused),
        )  # fmt: skip


def _full_shape(entry: CheckpointEntry) -> list[int]:
    if entry.slice_spec:
        return [int(size) for size in entry.slice_spec.split(" ")[:-1]]
    shape: Any = entry.variable.shape
    return list(shape.as_list())
