import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ps_train.engine.updates.modes.staleness import BINS, report, summary


@given(st.lists(st.integers(0, BINS - 1), min_size=1, max_size=200))
def test_a_summary_is_that_of_the_single_updates(values):
    counts = np.bincount(values, minlength=BINS)[None, :]
    found = summary(counts)
    assert abs(found["mean"] - np.mean(values)) < 1e-4
    assert found["max"] == max(values)
    assert found["p95"] == sorted(values)[int(np.ceil(0.95 * len(values))) - 1]
    assert abs(found["conflict_rate"] - np.mean(np.array(values) > 0)) < 1e-4
    assert sum(found["histogram"].values()) == len(values)


def test_no_updates_have_no_staleness():
    assert summary(np.zeros((2, BINS), np.int64))["mean"] == 0


def test_a_report_has_every_worker():
    counts = np.zeros((2, BINS), np.int64)
    counts[0, 1], counts[1, 3] = 5, 5
    found = report(counts, ["worker:0", "worker:1"])
    assert found["mean"] == 2 and found["per_worker"]["worker:0"]["max"] == 1
    assert found["per_worker"]["worker:1"]["histogram"] == {"3": 5}
