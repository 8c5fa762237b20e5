"""The calls of a training step, and the jobs that its variables do not allow."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.engine.step.train_step import TrainStep, _check_variables


class Calls:
    def steps(self, length: int) -> list[Any]:
        return [
            types.SimpleNamespace(train=[f"pull {n}", f"push {n}"], examples=f"examples {n}") for n in range(length)
        ]

    def ends(self, length: int) -> list[str]:
        return [f"end of {length}"]


def step(is_endless: bool) -> TrainStep:
    parts: Any = [types.SimpleNamespace(gauges=lambda: {"a": 1}), types.SimpleNamespace(gauges=lambda: {"b": 2})]
    unused: Any = None
    calls: Any = Calls()
    return TrainStep(unused, parts, unused, unused, unused, calls, unused, False, is_endless)


def test_a_call_makes_all_its_steps_and_its_end() -> None:
    found = step(is_endless=False).steps_per_call(2)
    assert found["train"] == ["pull 0", "push 0", "pull 1", "push 1", "end of 2"]
    assert found["examples"] == ["examples 0", "examples 1"]
    assert step(is_endless=False).steps_per_call(0) == {"train": ["end of 0"], "examples": []}


def test_examples_of_endless_input_are_not_fetched() -> None:
    assert step(is_endless=True).steps_per_call(3)["examples"] == []


def test_all_parts_show_their_values() -> None:
    assert step(is_endless=False).gauges() == {"a": 1, "b": 2}


def variables(dtype: str = "float32", tables: int = 0, assigned: int = 0) -> Any:
    made = {"w": types.SimpleNamespace(spec=types.SimpleNamespace(dtype=dtype))}
    return types.SimpleNamespace(
        variables=made, with_gradient=lambda: ["w"],
        tables=lambda: ["users"] * tables, state=lambda: ["mean"] * assigned,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (variables(), ""),
        (variables("bfloat16"), "variables below 32 bits"),
        (variables("float16"), "variables below 32 bits"),
        (variables(tables=1), "tables"),
        (variables(assigned=1), "variables that the model assigns itself"),
    ],
)
def test_a_job_with_racks_takes_dense_variables_of_32_bits_only(found: Any, words: str) -> None:
    _check_variables(Job(update="sync"), found)
    job = Job(update="sync", rack="a")
    if not words:
        _check_variables(job, found)
        return
    with pytest.raises(ConfigError, match=words):
        _check_variables(job, found)
