"""The savers of a model_fn, which the engine replaces: it saves every variable under its own name.

    watch = SaverWatch()
    with watch.building():                      # in the survey, whose variables are TensorFlow's own
        spec = model_fn(features, labels, "train")
    saving = saving_of(program, spec, watch.savers)
    with replaced_savers(saving.definitions):   # on the engine: savers get the same definitions, and cannot save
        spec = model_fn(features, labels, "train")

The settings of the program's own saver and of its `CheckpointSaverHook` hold for the engine: the steps or seconds
between checkpoints, and how many are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import saver_hook_settings
from ps_train.compat.capture.counted_step import ancestors
from ps_train.compat.capture.estimator_program import CaptureError, Program, hooks_of, saver_hooks_of
from ps_train.compat.capture.recorded_optimizers import replaced

log = logging.getLogger(__name__)

_SAVER = v1.train.Saver
_build_really = _SAVER.build
_BASENAME = "model.ckpt"

NEVER_HOURS = 10000.0
"""TensorFlow's default for the hours between two checkpoints that are kept for good."""


@dataclasses.dataclass(frozen=True)
class Saving:
    """The way in which a program saves checkpoints.

    Attributes:
      definitions: the definitions of the savers that the model_fn builds, in order.
      has_saver: True if the program saves with a saver of its own.
      keep: number of checkpoints that this saver keeps; 0 for all.
      keep_hours: hours between two that it keeps for good.
      has_hook: True if the program has a CheckpointSaverHook.
      save_secs: seconds between the checkpoints of this hook; None for none.
      save_steps: steps between them; None for none.
    """

    definitions: Sequence[v1.train.SaverDef] = ()
    has_saver: bool = False
    keep: int = 0
    keep_hours: float = NEVER_HOURS
    has_hook: bool = False
    save_secs: float | None = None
    save_steps: int | None = None

    def job_fields(self) -> dict[str, Any]:
        """Returns the fields of a job that these settings decide; 0 is for no limit."""
        fields: dict[str, Any] = {"keep_checkpoints": self.keep} if self.has_saver else {}
        if self.has_hook:
            fields |= {"save_secs": float(self.save_secs or 0), "save_steps": self.save_steps or 0}
        return fields


NOTHING_OF_ITS_OWN = Saving()
"""The way of a program that leaves saving to its RunConfig."""


class SaverWatch:
    """Watch over the savers that a model_fn builds.

    Attributes:
      savers: the savers, in the order in which they were built.
      operations: what they have added to the graph; the model itself does not depend on it.
    """

    def __init__(self) -> None:
        self.savers: list[v1.train.Saver] = []
        self.operations: set[tf.Operation] = set()

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Remembers the savers that are built in the body."""

        def build(saver: v1.train.Saver) -> None:
            graph = v1.get_default_graph()
            before = len(graph.get_operations())
            _build_really(saver)
            self.savers.append(saver)
            self.operations.update(graph.get_operations()[before:])

        with replaced([(_SAVER, "build", build)]):
            yield


def saving_of(program: Program, spec: Any, savers: Sequence[v1.train.Saver]) -> Saving:
    """Returns how a program saves.

    Args:
      program: has the model_dir, and hooks of its own.
      spec: the EstimatorSpec of its model_fn, in the current graph.
      savers: those that the model_fn has built.

    Raises:
      CaptureError: the engine cannot save in its place.
    """
    saving = Saving([saver.as_saver_def() for saver in savers if saver.saver_def is not None])
    for hook in hooks_of(program, spec, is_chief=True):
        if any(isinstance(value, _SAVER) for value in vars(hook).values()):
            raise CaptureError(f"the hook {type(hook).__name__} has a Saver of its own")
    own = spec.scaffold.saver if spec.scaffold is not None else None
    hooks = saver_hooks_of(program, spec, is_chief=True)
    if len(hooks) > 1:
        raise CaptureError(f"it has {len(hooks)} hooks of the kind CheckpointSaverHook")
    for hook in hooks:
        settings, expected = saver_hook_settings(hook), os.path.join(program.model_dir, _BASENAME)
        if os.path.abspath(settings.path) != os.path.abspath(expected):
            raise CaptureError(f"its {type(hook).__name__} saves {settings.path}, not {expected}")
        own = settings.saver or own
        saving = dataclasses.replace(
            saving, has_hook=True, save_secs=settings.save_secs, save_steps=settings.save_steps
        )
        if not type(hook).__module__.startswith("tensorflow."):
            log.warning(
                "the hook %s of the program saves nothing: ps_train saves at the times that the hook has", type(hook)
            )
    if own is None and len(collected := v1.get_collection(v1.GraphKeys.SAVERS)) == 1:
        own = collected[0]
    if own is None:
        return saving
    if own.saver_def is None:
        own.build()  # in the graph of the survey, which is never run
    if own.saver_def is not None:
        _check_names(own.as_saver_def())
        definition = own.as_saver_def()
        hours = definition.keep_checkpoint_every_n_hours
        saving = dataclasses.replace(saving, has_saver=True, keep=definition.max_to_keep, keep_hours=hours)
    return saving


@contextlib.contextmanager
def replaced_savers(definitions: Sequence[v1.train.SaverDef]) -> Iterator[None]:
    """Gives the savers that are built in the body these definitions, in order; the savers neither save nor restore.

    Raises:
      CaptureError: in the body, if it builds more savers.
    """
    pending = list(definitions)

    def build(saver: Any) -> None:
        if not pending:
            raise CaptureError("the model_fn builds other savers at another call")
        saver.saver_def = v1.train.SaverDef.FromString(pending.pop(0).SerializeToString())
        saver.save, saver.restore = _refusing("save"), _refusing("restore")

    with replaced([(_SAVER, "build", build)]):
        yield


def _refusing(verb: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise ModelError(
            f"a Saver of the model_fn cannot {verb} in training, since ps_train saves and restores all variables "
            'itself: leave it out, or use RunConfig(engine="tensorflow").'
        )

    return refuse


def _check_names(definition: v1.train.SaverDef) -> None:
    """Raises CaptureError if a saver gives a variable another name than its own."""
    graph = v1.get_default_graph()
    for op in ancestors(graph.get_tensor_by_name(definition.save_tensor_name).op, with_control=True):
        if op.type != "SaveV2":
            continue
        for key, tensor in zip(tf.get_static_value(op.inputs[1]), op.inputs[3:], strict=True):
            names = {source.name for source in ancestors(tensor.op) if source.type == "VarHandleOp"}
            if names and key.decode() not in names:
                raise CaptureError(f"its Saver saves variable {sorted(names)[0]} as {key.decode()}")
