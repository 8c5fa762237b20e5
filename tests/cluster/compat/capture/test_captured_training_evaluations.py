"""train_and_evaluate makes the same evaluations and exports with either engine, after a resume too."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ps_train import estimator
from tests.support.compat import estimators
from tests.support.long import long

ENGINES = ["ps_train", long("tensorflow")]


class Exports(estimator.Exporter):
    """Remembers step, metrics and kind of each export."""

    name = "exports"

    def __init__(self) -> None:
        self.made: list[tuple[int, bool, list[str]]] = []

    def export(
        self, estimator: Any, export_path: Any, checkpoint_path: Any, eval_result: Any, is_the_final_export: Any
    ) -> None:
        step = int(eval_result["global_step"])
        self.made.append((step, bool(is_the_final_export), sorted(eval_result)))


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("throttle_secs", "steps"),
    [(0, [[10, 20, 25], [30, 40, 43]]), long(1000, [[10, 25], [30, 43]])],
    ids=["each", "throttled"],
)
def test_each_checkpoint_with_new_steps_is_evaluated_once(
    tmp_path: pathlib.Path, engine: str, throttle_secs: int, steps: list[list[int]]
) -> None:
    keys = ["global_step", "loss", "mae"]
    for expected in steps:
        exports, config = Exports(), estimators.RunConfig(str(tmp_path), engine=engine, save_checkpoints_steps=10)
        result = estimator.train_and_evaluate(
            estimators.Estimator(estimators.model_fn, config=config),
            estimator.TrainSpec(estimators.forever, max_steps=expected[-1]),
            estimator.EvalSpec(
                estimators.once, steps=None, throttle_secs=throttle_secs, start_delay_secs=0, exporters=[exports]
            ),
        )
        assert exports.made == [(step, step == expected[-1], keys) for step in expected]
        assert result is not None and result[0] is not None and result[0]["global_step"] == expected[-1]
