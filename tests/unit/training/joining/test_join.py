"""A worker that begins while ps 0 is frozen waits for it: no heartbeat watches that ps yet."""

from __future__ import annotations

import pytest

from ps_train.base.errors import LostTaskError, RefusedError, UnreachableError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job
from ps_train.training.joining.join import _when_answered
from ps_train.training.joining.told_by_chief import agree_with_chief

SILENT = LostTaskError("ps:0 (a:1) does not answer (Deadline Exceeded)")


class Frozen:
    """A store, and calls to it, which are not answered so many times."""

    name = "ps:0 (a:1)"

    def __init__(self, times: int, answer: str = "") -> None:
        self.left, self.answer = times, answer

    def get(self, key: str = "") -> str:
        self.left -= 1
        if self.left >= 0:
            raise SILENT
        return self.answer

    def items(self) -> dict[str, str]:
        raise SILENT


def test_a_call_is_made_again_until_it_is_answered() -> None:
    frozen = Frozen(3)
    _when_answered(lambda: frozen.get() and None, frozen, Job(ps_hosts=("a:1",), startup_timeout_secs=60))
    assert frozen.left == -1


def test_a_ps_that_stays_silent_is_named_when_the_time_to_start_is_over() -> None:
    frozen = Frozen(10_000)
    with pytest.raises(UnreachableError, match=r"gave up after 0\.5s waiting for ps:0 \(a:1\): .*does not answer"):
        _when_answered(lambda: frozen.get() and None, frozen, Job(ps_hosts=("a:1",), startup_timeout_secs=0.5))


def test_a_refusal_ends_it_at_once() -> None:
    def refuse() -> None:
        raise RefusedError("worker:1 is already running")

    with pytest.raises(RefusedError):
        _when_answered(refuse, Frozen(0), Job(ps_hosts=("a:1",), startup_timeout_secs=60))


def test_the_chiefs_description_is_read_when_the_ps_answers_again() -> None:
    frozen = Frozen(2, '{"seed": 1}')
    cluster = Cluster.of(Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3")))
    agree_with_chief(frozen, {"seed": 1}, cluster, "worker:1", timeout_secs=60)
    assert frozen.left == -1
