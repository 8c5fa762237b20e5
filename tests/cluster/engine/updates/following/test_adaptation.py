"""The chief's hook: it measures over some time, and writes the policy's choice to ps 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ps_train.engine.step.parts.following import FollowingPart
from ps_train.engine.updates.counters.counter_values import counter_tensors
from ps_train.engine.updates.following.adaptation import AdaptationHook
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.small import Linear


class Sampler:
    """A tracer whose samples a test gives."""

    def __init__(self) -> None:
        self.latest: dict[str, float] | None = None
        self.times = 0

    def sample_anew(self, step: int) -> None:
        self.times += 1

    def sample(self, step: int, share: float) -> None:
        parts = {"pull": share / 2, "push": share / 2, "wait": 0.0, "update": 0.0}
        self.latest = {"step": step, "secs": 1.0, "compute": 1 - share, **parts}


class Watched:
    """A hook whose clock and counters a test moves; the values are on ps 0."""

    def __init__(self, **fields: Any) -> None:
        self.cluster = InProcessCluster(Linear(count=400), 1, 2, **fields)
        self.cluster.start()
        step, self.session = self.cluster.steps[0], self.cluster.sessions[0]
        self.now, self.tracer = 0.0, Sampler()
        self.step, self.examples, self.waiting = 0, 0.0, np.zeros([2, 2])
        with step.graph.as_default():
            adapted = [part.adapted for part in step.parts.of(FollowingPart)]
            self.hook: Any = AdaptationHook(
                adapted, step.ps.global_step, self.fetches(step), self.tracer, clock=lambda: self.now
            )
            (self.value,) = [value.newest() for value in adapted]

    @staticmethod
    def fetches(step: Any) -> dict[str, Any]:
        return {"gauges": step.gauges(), "step": step.ps.global_step, **counter_tensors(step.ps.counters)}

    def pass_time(self, secs: float, steps: int, examples: float, waited: float = 0.0) -> int:
        """Returns the value after so many seconds, in which the workers waited for a share of the time."""
        self.now, self.step, self.examples = self.now + secs, self.step + steps, self.examples + examples
        self.waiting = self.waiting + np.array([[waited * secs, secs]] * 2)
        fetched = self.session.run(self.hook.before_run(None).fetches[0])
        results = [fetched, self.step, self.examples, self.waiting]
        self.hook.after_run(SimpleNamespace(session=self.session), SimpleNamespace(results=results))
        return int(self.session.run(self.value))


def test_the_hook_measures_long_enough_and_takes_back_what_does_not_help(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(update="bounded", max_steps_ahead="0..2")
    with caplog.at_level("INFO", "ps_train"):
        assert watched.pass_time(1.0, 10, 100, 0.3) == 0
        assert watched.pass_time(1.0, 10, 100, 0.3) == 0, "too short"
        assert watched.pass_time(1.0, 10, 100, 0.3) == 1, "workers waited for 30 %"
        assert watched.pass_time(3.0, 20, 500, 0.2) == 2, "more examples a second: one more"
        assert watched.pass_time(3.0, 20, 500, 0.2) == 1, "they wait as long: taken back"
    assert watched.tracer.times == 0, "waiting needs no samples"
    if caplog.messages:  # the package's loggers may not propagate
        assert "max_steps_ahead=1 from step 31 on, before 0: workers waited 30% of their time" in caplog.messages[0]


@pytest.mark.parametrize(
    ("fields", "values"), [({"push_codec": "auto"}, [0, 1, 0]), long({"batch_size": "4..16"}, [4, 8, 4])]
)
def test_a_value_that_depends_on_the_network_waits_for_a_sample_of_it(fields: dict, values: list[int]) -> None:
    first, larger, back = values
    watched = Watched(**fields)
    assert watched.pass_time(1.0, 10, 100) == first
    assert watched.pass_time(3.0, 30, 100) == first, "there is no sample of a step yet"
    watched.tracer.sample(31, share=0.6)
    assert watched.pass_time(3.0, 30, 100) == larger
    assert watched.pass_time(3.0, 30, 50) == back, "fewer examples a second: taken back"
    assert watched.tracer.times == 3, "calls are timed anew for every value"
    for _ in range(6):
        assert watched.pass_time(3.0, 30, 100) == back, "the sample is of the value before"
    watched.tracer.sample(400, share=0.6)
    assert watched.pass_time(3.0, 30, 100) > back


def test_a_job_that_becomes_another_one_is_sampled_again() -> None:
    watched = Watched(push_codec="auto")
    for examples in (300, 300, 300, 20, 20):
        watched.pass_time(3.0, 30, examples)
    assert watched.tracer.times == 2, "at first, and when the speed fell"
