"""A lead and a number of backup workers that change while a cluster trains, and the hook that changes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.wait_limit import WaitLimitHook
from tests.support.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models import Linear

BRIEF = v1.RunOptions(timeout_in_ms=1500)
MODES = {
    "bounded": ({"update": "bounded", "max_steps_ahead": "0..2"}, "max_steps_ahead"),
    "sync": ({"update": "sync", "backup_workers": "auto"}, "backup_workers"),
}


def is_alone(cluster: InProcessCluster) -> bool:
    """Whether worker 0 makes a step, although worker 1 makes none."""
    try:
        cluster.sessions[0].run(cluster.steps[0].ops.train, options=BRIEF)
    except tf.errors.DeadlineExceededError:
        return False
    return True


@pytest.mark.parametrize("mode", ["bounded", long("sync")])
@pytest.mark.parametrize("num_ps", [2, long(1)])
def test_a_larger_limit_lets_a_worker_go_on_without_the_slowest(mode: str, num_ps: int) -> None:
    fields, name = MODES[mode]
    cluster = InProcessCluster(Linear(count=400), num_ps, 2, partition_bytes=4, **fields)
    cluster.start()
    cluster.train(4)
    with cluster.steps[0].graph.as_default():
        variable = next(v for v in v1.global_variables() if v.op.name == f"ps_train/{name}")
        larger = variable.assign(1, read_value=False)
    session = cluster.sessions[0]
    assert session.run(variable) == 0
    session.run(larger)
    assert is_alone(cluster)
    if mode == "bounded":
        assert not is_alone(cluster), "it is one step ahead now, and no more"
    else:
        assert is_alone(cluster), "each round goes on without the other"


class Watched:
    """The counters of a run, as the hook reads them, and its clock."""

    def __init__(self, cluster: InProcessCluster, name: str, limits: tuple[int, int]) -> None:
        step = cluster.steps[0]
        self.session, self.now = cluster.sessions[0], 0.0
        with step.graph.as_default():
            self.variable = next(v for v in v1.global_variables() if v.op.name == f"ps_train/{name}")
            self.hook: Any = WaitLimitHook(
                name, self.variable, limits, step.ps.global_step, step.ps.counters, clock=lambda: self.now
            )
        self.values: list[Any] = [0, 0, 0.0, 0.0]

    def pass_time(self, secs: float, steps: int, examples: float, waited: float) -> int:
        """Returns the limit after so many seconds, in which the workers waited for a share of the time."""
        import numpy as np

        self.now += secs
        limit, step, before, waiting = self.values
        self.values = [limit, step + steps, before + examples, waiting + np.array([[waited * secs, secs]] * 2)]
        self.values[0] = self.session.run(self.variable)
        self.hook.after_run(SimpleNamespace(session=self.session), SimpleNamespace(results=self.values))
        return int(self.session.run(self.variable))


def test_the_hook_measures_long_enough_and_takes_back_what_does_not_help(caplog: pytest.LogCaptureFixture) -> None:
    cluster = InProcessCluster(Linear(count=400), 1, 2, update="bounded", max_steps_ahead="0..2")
    cluster.start()
    watched = Watched(cluster, "max_steps_ahead", (0, 2))
    with caplog.at_level("INFO", "ps_train"):
        assert watched.pass_time(1.0, 10, 100, 0.3) == 0
        assert watched.pass_time(1.0, 10, 100, 0.3) == 0, "too short"
        assert watched.pass_time(1.0, 10, 100, 0.3) == 1, "workers waited for 30 %"
        assert watched.pass_time(3.0, 20, 500, 0.2) == 2, "more examples a second: one more"
        assert watched.pass_time(3.0, 20, 500, 0.2) == 1, "they wait as long: taken back"
    assert watched.hook.before_run(None).fetches is not None
    if caplog.messages:  # the package's loggers may not propagate
        assert "max_steps_ahead=1 from step 31 on, before 0: workers waited 30% of their time" in caplog.messages[0]
