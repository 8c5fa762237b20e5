"""Values of the counters of a run: what takes part, and what follows measurements."""

from __future__ import annotations

import numpy as np

from ps_train.engine.updates.counters.counter_values import RunCounterValues
from ps_train.engine.updates.following.adaptation import ADAPTED


def values(update: str, **adapted: int) -> RunCounterValues:
    waiting = np.array([[1.0, 4.0], [3.0, 4.0], [0.0, 0.0]])
    gauges = {ADAPTED[name]: value for name, value in adapted.items()}
    names = ["worker:0", "worker:1", "worker:2"]
    return RunCounterValues(update, names, 2, 8.0, 0, 0, np.zeros([3, 24], np.int64), waiting, gauges)


def test_a_worker_that_may_still_join_is_in_no_report() -> None:
    report = values("sync").waiting_report()
    assert report == {"share": 0.5, "per_worker": {"worker:0": 0.25, "worker:1": 0.75}}
    assert values("sync").staleness_report() is None and values("async").waiting_report() is None


def test_only_what_follows_measurements_is_among_the_adapted() -> None:
    assert values("sync").shown() == {}
    assert values("bounded", max_steps_ahead=np.int64(3)).shown() == {"max_steps_ahead": 3}
    assert values("async", push_codec=np.int64(2)).shown() == {"push_codec": "int8"}
    assert set(values("sync", **dict.fromkeys(ADAPTED, 1)).shown()) == set(ADAPTED)
