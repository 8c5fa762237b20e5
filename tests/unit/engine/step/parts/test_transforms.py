"""Transforms change mean gradients in their order, with the values that the step used."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ps_train.engine.step.parts import transforms as module
from ps_train.engine.step.parts.transforms import Transforms


@dataclasses.dataclass(frozen=True)
class Computed:
    gradients: Any
    rows: Any
    masks: Any
    used: Any
    loss: float = 0.5


@dataclasses.dataclass(frozen=True)
class Inputs:
    values: Any


def test_each_transform_gets_the_gradients_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def masked(values: dict[str, float], masks: dict[str, str]) -> dict[str, Any]:
        return {name: (value, masks.get(name)) for name, value in values.items()}

    monkeypatch.setattr(module, "apply_masks", masked)
    seen: list[Any] = []

    def doubled(gradients: dict[str, float], values: Any) -> dict[str, float]:
        seen.append(values)
        return {name: 2 * gradient for name, gradient in gradients.items()}

    def increased(gradients: dict[str, float], values: Any) -> dict[str, float]:
        return {name: gradient + 1 for name, gradient in gradients.items()}

    computed = Computed({"w": 3.0, "t": 4.0}, rows={"t": 7.0}, masks={"w": "mask"}, used={"t": "used"})
    given: Any = [doubled, increased]
    compute: Any = lambda inputs, batches: computed  # noqa: E731
    inputs: Any = Inputs({"w": 1.0, "t": 5.0})
    found: Any = Transforms(given).compute(compute)(inputs, None)  # type: ignore[arg-type]
    assert found.gradients == {"w": 7.0, "t": 9.0} and found.loss == 0.5
    assert seen == [{"w": (1.0, "mask"), "t": (7.0, "used")}]  # a table's rows, as they were used
    assert computed.gradients == {"w": 3.0, "t": 4.0}
