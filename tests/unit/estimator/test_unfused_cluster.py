"""A ps ends when all workers have ended or are gone, and never before."""

from __future__ import annotations

import pytest

from ps_train.errors import LostTaskError, UnreachableError
from ps_train.estimator.unfused_cluster import SILENT_SECS, WorkersGoneDetector

ENDED = -1


def detector(workers: int = 2, join_secs: float = 100.0) -> WorkersGoneDetector:
    return WorkersGoneDetector(workers, 0.0, join_secs)


def test_all_workers_have_ended():
    found = detector()
    assert not found.update({}, 0)
    assert not found.update({0: 1, 1: 1}, 1)
    assert not found.update({0: ENDED, 1: 2}, 2)
    assert found.update({0: ENDED, 1: ENDED}, 3)


def test_a_worker_that_is_still_starting_is_waited_for():
    found = detector()
    assert not found.update({0: ENDED}, 1)
    assert not found.update({0: ENDED}, 1 + SILENT_SECS)
    assert not found.update({0: ENDED, 1: 1}, 1.5 + SILENT_SECS)
    assert found.update({0: ENDED, 1: ENDED}, 2 + SILENT_SECS)


def test_a_worker_that_never_starts_is_not_waited_for_without_end():
    found = detector()
    assert not found.update({0: ENDED}, 1)
    assert found.update({0: ENDED}, 1.1 + SILENT_SECS)


def test_a_worker_that_falls_silent_counts_as_gone():
    found = detector()
    assert not found.update({0: ENDED, 1: 5}, 1)
    assert not found.update({0: ENDED, 1: 5}, 1 + SILENT_SECS)
    assert found.update({0: ENDED, 1: 5}, 1.1 + SILENT_SECS)


def test_a_sign_of_life_is_any_new_number():
    found = detector(workers=1)
    for second in range(0, 1000, 50):
        assert not found.update({0: second % 7 + second}, second)


def test_a_worker_that_comes_back_is_alive():
    found = detector()
    assert not found.update({0: ENDED, 1: 1}, 1)
    assert not found.update({0: 1, 1: ENDED}, 2)
    assert found.update({0: ENDED, 1: ENDED}, 3)


def test_if_all_are_gone_and_none_has_ended_the_job_has_failed():
    found = detector()
    assert not found.update({0: 1, 1: 1}, 1)
    with pytest.raises(LostTaskError, match="no sign of any worker for 61s"):
        found.update({0: 1, 1: 1}, 62)


def test_if_no_worker_comes_the_job_has_failed():
    found = detector(join_secs=100)
    assert not found.update({}, 100)
    with pytest.raises(UnreachableError, match="no worker has come within 101s"):
        found.update({}, 101)
