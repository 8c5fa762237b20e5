"""The ps's part of a step: what it initializes and what a checkpoint has of it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.step_part import StepPart
from ps_train.engine.step.train_step import build_train_step
from ps_train.engine.variables.variables import CheckpointEntry, ps_device, zeros_variable
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import spec_of
from tests.support.models.small import Linear
from tests.support.models.tables import Bags


class Storing(StepPart):
    """Adds an entry to the checkpoint."""

    def entries(self) -> list[CheckpointEntry]:
        with v1.device(ps_device(1)):
            return [CheckpointEntry("mine", "", zeros_variable("mine", tf.float32, [2]))]


def test_a_checkpoint_has_counters_variables_slots_and_what_parts_add() -> None:
    step = build_train_step(spec_of(Linear(), 2, optimizer="momentum"), [Storing()])
    found = [(entry.key, entry.follower, entry.optional) for entry in step.ps.entries]
    assert found[:2] == [("global_step", False, False), ("global_step", True, False)], "each ps restores it"
    assert found[2:5] == [(f"ps_train/{name}", False, True) for name in ("examples", "skipped", "dropped")]
    keys = [key for key, *_ in found[5:]]
    assert {key for key in keys if not key.startswith("w")} == {"b", "b/Momentum", "mine"} and keys[-1] == "mine"
    assert {key for key in keys if key.startswith("w")} == {"w", "w/Momentum"}


def test_each_ps_initializes_what_it_holds() -> None:
    step = build_train_step(spec_of(Linear(), 2))
    session: Any = LocalSession(step.graph, initialized=False)
    here = ["task:1" in entry.variable.device for entry in step.ps.entries]
    assert session.run(step.ps.uninitialized).all() and any(here) and not all(here)
    session.run(step.ps.initialize[1])
    assert session.run(step.ps.uninitialized).tolist() == [not one for one in here]
    session.run(step.ps.initialize[0])
    assert not session.run(step.ps.uninitialized).any()


def test_tables_are_known_by_their_name_and_small_ones_are_copied_for_a_checkpoint() -> None:
    step = build_train_step(spec_of(Bags(), 2))
    assert set(step.ps.tables) == {"sum", "mean", "sqrtn"} and step.ps.old_rows == []
    with step.graph.as_default():
        assert len(v1.get_collection(AFTER_RESTORE)) == 1
