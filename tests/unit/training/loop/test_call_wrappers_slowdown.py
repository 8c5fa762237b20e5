"""A replica that is made slower."""

from __future__ import annotations

import time

from ps_train.training.loop.call_wrappers import Slowdown


def a_run(fetches: object) -> str:
    time.sleep(0.01)
    return "done"


def test_each_run_takes_so_many_times_longer_but_for_the_first_of_its_kind() -> None:
    run, fetches = Slowdown(5).wrap(a_run), {"train": [1, 2]}
    began = time.monotonic()
    assert run(fetches) == "done"
    first = time.monotonic() - began
    assert run(fetches) == "done"
    assert time.monotonic() - began - first >= 0.05
