"""The chief's hook: it measures a size over some time, and writes the policy's choice to ps 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ps_train import Job
from ps_train.engine.updates.batch_size_control import (
    BatchSizeHook,
    FollowingBatchSize,
    batch_size_of,
    learning_rate_divisor,
)
from ps_train.engine.updates.batch_size_policy import BatchSizePolicy
from tests.support.cluster import InProcessCluster
from tests.support.models import Linear


class Sampler:
    """A tracer whose samples a test gives."""

    def __init__(self) -> None:
        self.latest: dict[str, float] | None = None
        self.settings: list[tuple[float, float]] = []

    def sample_often(self, pause_secs: float, most_cost: float) -> None:
        self.settings.append((pause_secs, most_cost))

    def sample(self, step: int, share: float) -> None:
        parts = {"pull": share / 2, "push": share / 2, "wait": 0.0, "update": 0.0}
        self.latest = {"step": step, "secs": 1.0, "compute": 1 - share, **parts}


def test_the_hook_changes_the_size_once_it_has_measured_long_enough() -> None:
    cluster = InProcessCluster(Linear(count=400), 1, 1, batch_size="4..16")
    cluster.start()
    step, session, tracer = cluster.steps[0], cluster.sessions[0], Sampler()
    times = [0.0]
    with step.graph.as_default():
        assert isinstance(step.worker.batch_size, FollowingBatchSize)
        schedule, policy = step.worker.batch_size.schedule, BatchSizePolicy((4, 8, 16), 0.2)
        hook = BatchSizeHook(
            schedule, step.ps.global_step, step.ps.counters.examples, policy, tracer, clock=lambda: times[0]
        )

    def pass_time(steps: int, secs: float) -> list[int]:
        cluster.train(steps)
        times[0] += secs
        context: Any = SimpleNamespace(session=session)
        hook.after_run(context, SimpleNamespace(results=session.run(hook.before_run(context).fetches)))
        return session.run(schedule.variable).tolist()

    assert pass_time(1, 1.0) == [0, 0, 0]
    assert pass_time(20, 1.0) == [0, 0, 0], "there is no sample of a step yet"
    tracer.sample(21, share=0.6)
    assert pass_time(1, 0.5) == [0, 0, 0], "not long enough"
    assert pass_time(1, 1.0) == [4, 24, 8], "from the step after the present one on"
    tracer.sample(24, share=0.6)
    assert pass_time(3, 1.0) == [4, 24, 8]
    assert pass_time(20, 60.0) == [4, 24, 8], "the sample is of the size before"
    tracer.sample(40, share=0.6)
    assert pass_time(20, 1.0)[2] == 4, "fewer examples a second: the growth is taken back"
    assert len(tracer.settings) == 3, "calls are timed anew for every size"


def test_a_fixed_size_has_no_hook() -> None:
    assert batch_size_of(Job(batch_size=8), ahead=True).hooks(None, None, Sampler()) == []


@pytest.mark.parametrize(
    ("fields", "replicas", "examples", "divisor"),
    [
        ({"scale_learning_rate": "linear"}, 4, 32.0, 0.25),
        ({"scale_learning_rate": "sqrt"}, 4, 32.0, 0.5),
        ({"scale_learning_rate": "linear", "accumulate": 2}, 4, 32.0, 0.5),
        ({"scale_learning_rate": "linear", "update": "sync"}, 4, 64.0, 0.5),
        ({"scale_learning_rate": "linear", "update": "sync", "backup_workers": 2}, 4, 64.0, 0.25),
        ({"scale_learning_rate": "linear"}, 4, 3.0, 1.0),  # the last batch of an epoch
        ({"scale_learning_rate": "linear"}, 4, 0.0, 1.0),
    ],
)
def test_the_divisor_of_the_learning_rate(fields: dict, replicas: int, examples: float, divisor: float) -> None:
    found = learning_rate_divisor(Job(batch_size="8..64", **fields), replicas)
    assert found is not None
    cluster_free = found(np.float32(examples))  # type: ignore[arg-type]
    np.testing.assert_allclose(np.asarray(cluster_free), divisor)


def test_a_learning_rate_that_does_not_follow_has_no_divisor() -> None:
    assert learning_rate_divisor(Job(batch_size="8..64"), 4) is None
