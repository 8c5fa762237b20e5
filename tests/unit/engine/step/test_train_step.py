"""The training graph of one replica, all of whose tasks are this process: its steps are those of a plain session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import ConfigError
from ps_train.engine.step.parts.step_part import StepPart
from ps_train.engine.step.train_step import TrainStep, build_train_step
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import Slice
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import linear_gradient, spec_of
from tests.support.models.small import Linear
from tests.support.models.tables import Bags

FIRST = {"w": np.float32([[0.5], [-1.0], [2.0]]), "b": np.float32(0.25)}


class Running:
    """A step of `Linear` on two ps, with fixed first values."""

    def __init__(self, calls: int = 1, **fields: Any) -> None:
        spec = spec_of(Linear(), optimizer="sgd", learning_rate=0.1, **fields)
        self.slices = [(piece.name, piece.variable, _rows(piece)) for piece in spec.plan.slices]
        self.step = build_train_step(spec)
        self.fetches = self.step.steps_per_call(calls)
        with self.step.graph.as_default():
            set_values = [
                self.step.ps.variables[name].assign(FIRST[variable][rows]) for name, variable, rows in self.slices
            ]
        self.session: Any = LocalSession(self.step.graph, initialized=False)
        self.session.run(self.step.ps.initialize)
        self.session.run(set_values)
        self.step.local.prepare(self.session)
        batches = self.step.worker.batches
        self.session.run(batches.initializer, batches.feeds(seed=1))

    def values(self) -> Any:
        found = {name: np.empty_like(value) for name, value in FIRST.items()}
        for name, variable, rows in self.slices:
            found[variable][rows] = self.session.run(self.step.ps.variables[name])
        return found


def _rows(piece: Slice) -> Any:
    return slice(piece.begin, piece.begin + piece.shape[0]) if piece.count > 1 else ...


def expected(batches: list[tuple[int, int]]) -> dict[str, Any]:
    data, values = Linear().data("train", ""), {name: value.astype(np.float64) for name, value in FIRST.items()}
    for begin, end in batches:
        found = linear_gradient(data.features[begin:end], data.labels[begin:end], values["w"], float(values["b"]))
        values = {name: value - 0.1 * found[name] for name, value in values.items()}
    return values


@pytest.mark.parametrize("update", ["async", "bounded", "sync"])
@pytest.mark.parametrize("calls", [1, 3])
def test_steps_are_those_of_gradient_descent_in_every_mode(update: str, calls: int) -> None:
    running = Running(calls, update=update, steps_per_run=str(calls))
    for _ in range(2):
        running.session.run(running.fetches)
    found, steps = running.values(), 2 * calls
    for name, value in expected([(4 * step, 4 * step + 4) for step in range(steps)]).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
    assert running.session.run(running.step.ps.global_step) == steps
    assert running.session.run(running.step.ps.counters.examples) == 4 * steps
    assert running.step.lockstep == (update == "sync")


def test_a_call_of_input_that_ends_tells_the_examples_of_each_step() -> None:
    running = Running(3, epochs=1, batch_size=24, steps_per_run="3")
    assert not running.step.is_endless and len(running.fetches["examples"]) == 3
    assert running.session.run(running.fetches)["examples"] == [24, 24, 16]
    found = running.values()
    for name, value in expected([(0, 24), (24, 48), (48, 64)]).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


def test_endless_input_has_no_examples_to_tell() -> None:
    step = build_train_step(spec_of(Linear()))
    assert step.is_endless and step.steps_per_call(1)["examples"] == []
    assert step.gauges() == {} and step.steps_per_call(0) == {"train": [], "examples": []}


class OfThree(StepPart):
    """The ps see three replicas; it shows a gauge."""

    def pusher(self, replica: Replica) -> Replica:
        return Replica(replica.index + 1, 3, 3)

    def gauges(self) -> Any:
        return {"gauge": "tensor"}


def test_features_are_parts_of_the_step_and_may_stand_for_another_replica() -> None:
    part = OfThree()
    step = build_train_step(spec_of(Linear(), warmup_steps=3), [part])
    assert step.parts[-1] is part and len(step.parts) == 2 and step.gauges() == {"gauge": "tensor"}
    assert step.ps.counters.staleness.shape[0] == 3


@pytest.mark.parametrize(("fields", "text"), [({"accumulate": 2}, "accumulate=2"), ({"towers": "1"}, "")])
def test_what_is_not_possible_with_tables_is_refused(fields: dict[str, Any], text: str) -> None:
    spec = spec_of(Bags(), **fields)
    if text:
        with pytest.raises(ConfigError, match=text):
            build_train_step(spec)
    else:
        assert isinstance(build_train_step(spec), TrainStep)
