"""What a checkpoint has of a step's counters, and which shard counts the run."""

from __future__ import annotations

import types
from typing import Any

from ps_train.engine.step import ps_step
from ps_train.engine.updates.modes.shard_part import RunCounting


def named(name: str) -> Any:
    return types.SimpleNamespace(op=types.SimpleNamespace(name=name))


def state(num_ps: int) -> Any:
    counters = types.SimpleNamespace(**{name: named(f"ps_train/{name}") for name in ("examples", "skipped", "dropped")})
    counts = [named(f"count {ps}") for ps in range(num_ps)]
    return types.SimpleNamespace(
        update_counts=counts, versions=[f"version {ps}" for ps in range(num_ps)], counters=counters
    )


def test_every_ps_restores_the_global_step_and_the_first_one_saves_it() -> None:
    entries = ps_step._counter_entries(state(3))
    steps = [entry for entry in entries if entry.key == "global_step"]
    assert [(entry.variable.op.name, entry.follower) for entry in steps] == [
        ("count 0", False), ("count 1", True), ("count 2", True),
    ]  # fmt: skip
    others = [entry for entry in entries if entry.key != "global_step"]
    assert [entry.key for entry in others] == ["ps_train/examples", "ps_train/skipped", "ps_train/dropped"]
    assert all(entry.optional for entry in others) and not any(entry.optional for entry in steps)


def test_the_first_ps_counts_the_run_after_what_features_do_there() -> None:
    optimizers: Any = [types.SimpleNamespace(apply=f"apply {ps}") for ps in range(2)]
    given: Any = types.SimpleNamespace(
        shard_parts={0: ["feature"], 1: ["other"]}, rate_divisors=["divisor"], versions=["version 0", "version 1"]
    )
    first, second = ps_step._shards(state(2), optimizers, given)
    fields = [list(vars(shard).values()) for shard in (first, second)]
    for ps, values in enumerate(fields):
        assert ps in values and f"apply {ps}" in values and f"version {ps}" in values and ["divisor"] in values
    parts = [next(value for value in values if isinstance(value, list) and value != ["divisor"]) for values in fields]
    assert parts[0][0] == "feature" and isinstance(parts[0][1], RunCounting) and len(parts[0]) == 2
    assert parts[1] == ["other"]
