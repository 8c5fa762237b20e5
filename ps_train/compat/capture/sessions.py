"""Graphs and sessions of an Estimator's calls: each call has new ones.

Use:

    with estimator_graph(config):
        ...                                                     # input_fn, model_fn
        with v1.train.MonitoredSession(RestoringSessionCreator(...), hooks) as session:
            ...
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import cause_of
from ps_train.base.graph_names import NamedValuesGraph
from ps_train.compat.capture.counted_step import ancestors, operations_of
from ps_train.compat.train.monitored_session import TrainingSessionCreator
from ps_train.engine.run_directory.run_checkpoints import newest_checkpoint
from ps_train.engine.variables.variables import former_keys, kind_of, make_global_step


@contextlib.contextmanager
def estimator_graph(config: Any, device: str | Callable[[Any], str] | None = None) -> Iterator[tf.Graph]:
    """Enters a new graph that has the configuration's seed, and a global step as its first variable."""
    graph = NamedValuesGraph()
    with graph.as_default(), graph.device(device):
        v1.set_random_seed(config.tf_random_seed)
        make_global_step()
        yield graph


def seed_of(config: Any) -> int:
    """Returns the seed of the job that a configuration describes."""
    return 1 if config.tf_random_seed is None else int(config.tf_random_seed)


def in_one_piece(getter: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
    """A custom getter of a variable scope: it makes resource variables without partitions."""
    return getter(name, *args, **{**options, "partitioner": None, "use_resource": True})


class DefaultSaver(v1.train.Saver):
    """A saver of all variables under their own names: one that the user has not made."""

    def restore(self, sess: Any, save_path: str) -> None:
        """Restores the variables from a checkpoint, which may have former names of some."""
        former = _former_names(save_path)
        if not former:
            super().restore(sess, save_path)
            return
        restore = sess.graph.get_operation_by_name(self.saver_def.restore_op_name)
        feeds: dict[Any, Any] = {self.saver_def.filename_tensor_name: save_path}
        reader = tf.train.load_checkpoint(save_path)
        for op in ancestors(restore, with_control=True):
            if op.type == "RestoreV2":
                names = [former.get(name.decode(), name.decode()) for name in tf.get_static_value(op.inputs[1])]
                feeds |= {value: reader.get_tensor(name) for value, name in zip(op.outputs, names, strict=True)}
        sess.run(restore, feeds)


def _former_names(checkpoint: str) -> dict[str, str]:
    """Returns the name of each variable that a checkpoint has under a former name, to that name."""
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    here, found = [variable.op.name for variable in v1.global_variables()], dict[str, str]()
    for kind, keys in former_keys(names).items():
        same = [name for name in here if f"/{kind_of(name)}".endswith(f"/{kind}")]
        if len(same) == len(keys):
            found |= {name: key for name, key in zip(same, keys, strict=True) if name not in names}
    return found


class RestoringSessionCreator(v1.train.ChiefSessionCreator):
    """A session in which variables have a checkpoint's values, or their initial ones where there is none.

    Args:
      scaffold: of the EstimatorSpec.
      master: target of the session.
      config: a ConfigProto.
      checkpoint: path of the checkpoint.
      fetches: what the session computes.  A slot of which it needs nothing may be missing in the checkpoint: a model_fn
        may make an optimizer in each mode, and the slots of local steps are in no checkpoint.
    """

    def __init__(
        self,
        scaffold: v1.train.Scaffold,
        master: str,
        config: v1.ConfigProto | None,
        checkpoint: str | None,
        fetches: Any,
    ) -> None:
        self._scaffold, self._source = _without_unused(scaffold, checkpoint, fetches), checkpoint
        super().__init__(self._scaffold, master, config, None, checkpoint or None)

    def create_session(self) -> v1.Session:
        """Returns the session; raises an OpError that says what in the checkpoint does not fit."""
        with _misfit_explained(self._source, self._scaffold):
            return super().create_session()


class EstimatorSessionCreator(TrainingSessionCreator):
    """A session for training, whose chief restores the newest undamaged checkpoint; see `TrainingSessionCreator`."""

    def checkpoint(self) -> dict[str, str | None]:
        """Returns the argument of `prepare_session` that names the checkpoint."""
        return {"checkpoint_filename_with_path": self._newest()}

    def create_session(self) -> Any:
        """Returns a session with a model that is ready; raises an OpError that says what does not fit."""
        with _misfit_explained(self._newest(), self._scaffold):
            return super().create_session()

    def _newest(self) -> str | None:
        return newest_checkpoint(self._checkpoint_dir) if self._is_chief and self._checkpoint_dir else None


def _without_unused(scaffold: v1.train.Scaffold, checkpoint: str | None, fetches: Any) -> v1.train.Scaffold:
    """Returns a scaffold that restores no slot which is missing in a checkpoint, and which no fetch needs."""
    missing = _missing(checkpoint) if checkpoint and scaffold.saver is None else []
    if not missing or v1.get_collection(v1.GraphKeys.SAVERS):
        return scaffold
    kept = {op.name for op in ancestors(fetches, with_control=True)} | {one.op.name for one in v1.trainable_variables()}
    unused = [one for one in v1.global_variables() if one.op.name in missing and one.op.name not in kept]
    if not unused:
        return scaffold
    names = {one.op.name for one in unused}
    restored = [one for one in v1.global_variables() if one.op.name not in names]
    local = scaffold.local_init_op
    own = [v1.train.Scaffold.default_local_init_op()] if local is None else operations_of(local)
    return v1.train.Scaffold(
        saver=v1.train.Saver(
            [*restored, *v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)], sharded=True, allow_empty=True
        ),
        ready_for_local_init_op=v1.report_uninitialized_variables(restored),
        local_init_op=tf.group(*own, *(one.initializer for one in unused)),
        copy_from_scaffold=scaffold,
    )


@contextlib.contextmanager
def _misfit_explained(source: str | None, scaffold: v1.train.Scaffold) -> Iterator[None]:
    """Tells what in a checkpoint does not fit the variables, if that ends the body.

    Raises:
      tf.errors.InvalidArgumentError: the checkpoint has a variable of another shape.
      tf.errors.NotFoundError: the checkpoint lacks a variable.
    """
    savers = [scaffold.saver] if scaffold.saver else v1.get_collection(v1.GraphKeys.SAVERS)
    if source and all(isinstance(saver, DefaultSaver) for saver in savers):
        for name, there, here in _other_shapes(source):  # restored resource variables take values of any shape
            text = _misfit(source, f"{name} has the shape {there} there and {here} here")
            raise tf.errors.InvalidArgumentError(None, None, text)
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
        if not source or "Restoring from checkpoint failed" not in str(error):
            raise
        missing = _missing(source)
        reason = f"it has no {', '.join(missing)}" if missing else cause_of(error)
        raise type(error)(None, None, _misfit(source, reason)) from error


def _misfit(source: str, reason: str) -> str:
    folder, name = os.path.split(source)
    return (
        f"checkpoint {name} of model_dir={folder} does not fit the variables of the model_fn: {reason}; use "
        "another model_dir, or the model that wrote it."
    )


def _other_shapes(checkpoint: str) -> list[tuple[str, list[int], list[int]]]:
    """Returns (name, shape in the checkpoint, shape here) of the variables whose shapes differ."""
    shapes = dict(tf.train.list_variables(checkpoint))
    here = {variable.op.name: variable.shape.as_list() for variable in v1.global_variables()}
    return [(name, shapes[name], shape) for name, shape in here.items() if shapes.get(name, shape) != shape]


def _missing(checkpoint: str) -> list[str]:
    """Returns the names of the variables that a checkpoint has not."""
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    return [variable.op.name for variable in v1.global_variables() if variable.op.name not in names]
