"""The verdict is given right values, and values with one error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.trials.pairwise.factors import (
    EXPIRE_STEPS,
    RESUME_STEP,
    STEPS,
    Row,
)
from tests.trials.pairwise.job import Run
from tests.trials.pairwise.model import IDS
from tests.trials.pairwise.oracle import Oracle
from tests.trials.pairwise.verdict import SLOT_KEYS, faults


def run_of(row: Row, oracle: Oracle, **changes: int) -> Run:
    restarted_at = None if row.event == "none" else RESUME_STEP
    return dataclasses.replace(Run(oracle.step, oracle.skipped, "", restarted_at=restarted_at), **changes)


def right_values(row: Row, steps: int = STEPS) -> tuple[Oracle, dict[str, np.ndarray]]:
    """Returns the values of a run that went right, as a checkpoint has them."""
    oracle = Oracle(row)
    if row.event != "none":
        oracle.run(RESUME_STEP)
        oracle.start_again()
    oracle.run(steps)
    values = {name: value.astype(np.float32) for name, value in oracle.values.items()}
    for name, slots in oracle.slots.items():
        values |= {
            f"{name}/{SLOT_KEYS[row.optimizer][slot]}": value.astype(np.float32) for slot, value in slots.items()
        }
    known = np.array([number in oracle.known_ids for number in range(IDS)])
    values["emb/used"] = np.stack([known, np.where(known, oracle.step, 0), known], 1).astype(np.int64)
    values |= {"emb/keys": np.arange(IDS)[:, np.newaxis], "emb/clock": np.array([oracle.step])}
    return oracle, values


JUDGED = Row(event="resume", on_nan="skip", l2=0.01, optimizer="momentum", table="admit")


def test_the_verdict_finds_nothing_in_right_values() -> None:
    oracle, values = right_values(JUDGED)
    assert faults(JUDGED, run_of(JUDGED, oracle), values) == []


@pytest.mark.parametrize("name", ["w1", "count", "w2/Momentum", "emb", "emb/Momentum", "emb/default"])
def test_the_verdict_notices_a_wrong_value(name: str) -> None:
    oracle, values = right_values(JUDGED)
    values[name].flat[-1] += 0.01
    assert [text.split("[")[0] for text in faults(JUDGED, run_of(JUDGED, oracle), values)] == [name]


@pytest.mark.parametrize("steps", [STEPS - 1, STEPS + 1])
@pytest.mark.parametrize("codecs", [("none", "none"), ("bfloat16", "bfloat16"), ("int8", "int8")])
def test_the_verdict_notices_one_update_too_few_or_too_many(codecs: tuple[str, str], steps: int) -> None:
    row = dataclasses.replace(JUDGED, codecs=codecs)
    _, values = right_values(row, steps)
    oracle, _ = right_values(row)
    assert any(text.startswith("count") for text in faults(row, run_of(row, oracle), values))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"steps": STEPS - 1}, f"ended at step {STEPS - 1}, not {STEPS}"),
        ({"restarted_at": 5}, "went on at step 5, not 6"),
        ({"skipped": 0}, "skipped 0 gradients"),
    ],
)
def test_the_verdict_notices_wrong_steps(changes: dict[str, int], problem: str) -> None:
    oracle, values = right_values(JUDGED)
    (found,) = faults(JUDGED, run_of(JUDGED, oracle, **changes), values)
    assert problem in found


def test_the_verdict_notices_an_id_that_should_have_expired() -> None:
    row = Row(table="expire")
    oracle, values = right_values(row)
    expired = min({*range(IDS)} - oracle.known_ids)
    values["emb/used"][expired] = [1, oracle.step - EXPIRE_STEPS, 1]
    assert faults(row, run_of(row, oracle), values) == []
    values["emb/used"][expired, 1] += 1
    assert "emb has rows" in faults(row, run_of(row, oracle), values)[0]
