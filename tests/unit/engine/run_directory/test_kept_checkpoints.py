"""The newest checkpoints are kept, and as many of each kind that others need."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ps_train.engine.run_directory import kept_checkpoints
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints


@pytest.fixture
def needing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def need(*groups: list[int]) -> None:
        found = [lambda directory, group=group: group for group in groups]
        monkeypatch.setattr(kept_checkpoints, "NEEDED_STEPS", found)

    return need


def test_the_newest_are_kept(needing) -> None:
    needing()
    assert KeptCheckpoints(2).of([40, 30, 20, 10], "m") == [40, 30]
    assert KeptCheckpoints(5).of([40, 30], "m") == [40, 30]


def test_what_others_need_does_not_count_among_the_newest(needing) -> None:
    needing([200])
    assert KeptCheckpoints(2).of([250, 240, 230, 200], "m") == [250, 240, 200]
    needing([250])
    assert KeptCheckpoints(2).of([250, 240, 230, 200], "m") == [250, 240, 230]


def test_each_need_keeps_its_newest_ones_only(needing) -> None:
    needing([10, 20, 30], [15, 30])
    assert KeptCheckpoints(1).of([40, 35, 30, 20, 15, 10], "m") == [40, 30]
    assert KeptCheckpoints(2).of([40, 35, 30, 20, 15, 10], "m") == [40, 35, 30, 20, 15]


def test_a_needed_step_without_a_checkpoint_keeps_no_other_one(needing) -> None:
    needing([99, 10])
    assert KeptCheckpoints(1).of([40, 30, 10], "m") == [40, 10]
    assert KeptCheckpoints(1).needed("m") == {99, 10}
