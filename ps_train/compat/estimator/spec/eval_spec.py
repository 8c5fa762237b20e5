"""Settings of the evaluation in `train_and_evaluate`.

EvalSpec(input_fn, steps=None, throttle_secs=60, exporters=LatestExporter("latest", receiver_fn))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.estimator_spec import check_count, check_input_fn, checked_hooks
from ps_train.compat.estimator.spec.exporter import Exporter


class _Fields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[v1.train.SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_Fields):
    """Data, times and exports of the evaluation.

    Args:
      input_fn: returns the evaluation data: a Dataset, or tensors; see `Estimator.evaluate`.
      steps: number of batches of an evaluation; None: all data.
      name: name of the evaluation if there are several; its events go to `eval_NAME` in model_dir.
      hooks: run in each evaluation.
      exporters: one exporter or several with different names; they are called after each evaluation.
      start_delay_secs: seconds before an evaluator's first evaluation.
      throttle_secs: least seconds between the beginnings of two evaluations; the last one is never delayed.

    Raises:
      TypeError: an argument has the wrong type.
      ValueError: a number is out of range, or two exporters have the same name.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[v1.train.SessionRunHook] | None = None,
        exporters: Exporter | Iterable[Exporter] | None = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        """Returns the spec, checked."""
        check_input_fn(input_fn, "EvalSpec")
        check_count(steps, "EvalSpec.steps", "for all data")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"EvalSpec.name={name!r} is of type {type(name).__name__}: use a text.")
        found = checked_hooks(hooks, "EvalSpec.hooks")
        all_exporters = _checked_exporters(exporters)
        for what, secs in (("start_delay_secs", start_delay_secs), ("throttle_secs", throttle_secs)):
            if secs < 0:
                raise ValueError(f"EvalSpec.{what}={secs} is not valid: use a number of at least 0.")
        return super().__new__(cls, input_fn, steps, name, found, all_exporters, start_delay_secs, throttle_secs)


def _checked_exporters(exporters: Any) -> tuple[Exporter, ...]:
    if isinstance(exporters, Exporter):
        exporters = (exporters,)
    try:
        found = tuple(exporters or ())
    except TypeError:
        found = (exporters,)
    for exporter in found:
        if not isinstance(exporter, Exporter):
            raise TypeError(
                f"EvalSpec.exporters has {exporter!r} of type {type(exporter).__name__}: use an Exporter, or several."
            )
        if not isinstance(exporter.name, str) or not exporter.name:
            raise ValueError(f"EvalSpec.exporters has an exporter with the name {exporter.name!r}: use a text.")
    names = [exporter.name for exporter in found]
    if len(set(names)) < len(names):
        raise ValueError(f"EvalSpec.exporters have the names {', '.join(names)}: give each exporter a name of its own.")
    return found
