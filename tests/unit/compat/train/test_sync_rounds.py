"""Which gradients count for an update, and which worker goes on."""

from __future__ import annotations

from ps_train.compat.train.sync_rounds import SyncRounds


def test_a_round_takes_one_gradient_of_each_worker():
    rounds = SyncRounds(["a", "b", "c"], aggregate=3, step=5)
    assert rounds.arrive("b", 5) == rounds.arrive("a", 5) == []
    assert (rounds.complete(), rounds.missing()) == (0, 1)
    assert rounds.arrive("c", 5) == []
    assert rounds.complete() == 3
    assert rounds.updated(6) == ["b", "a", "c"]
    assert (rounds.complete(), rounds.missing(), rounds.step) == (0, 3, 6)


def test_a_late_gradient_does_not_count_and_its_worker_goes_on():
    rounds = SyncRounds(["a", "b"], aggregate=1, step=0)
    rounds.arrive("a", 0)
    assert rounds.complete() == 1 and rounds.updated(1) == ["a"]
    assert rounds.arrive("b", 0) == ["b"]
    assert rounds.complete() == 0
    assert rounds.arrive("b", 1) == [] and rounds.complete() == 1


def test_with_fewer_workers_than_gradients_each_computes_its_share():
    rounds = SyncRounds(["a", "b"], aggregate=3, step=0)
    assert (rounds.missing(), rounds.expected()) == (3, 2)
    assert rounds.arrive("a", 0) == ["a"]
    assert rounds.arrive("b", 0) == []
    assert (rounds.complete(), rounds.expected()) == (0, 1)
    assert rounds.arrive("a", 0) == []
    assert rounds.complete() == 3


def test_a_worker_that_leaves_is_not_waited_for():
    rounds = SyncRounds(["a", "b"], aggregate=2, step=0)
    rounds.arrive("a", 0)
    assert rounds.leave("b") == []
    assert rounds.complete() == 1 and rounds.updated(1) == ["a"]


def test_the_gradient_of_a_worker_that_then_leaves_counts():
    rounds = SyncRounds(["a", "b"], aggregate=2, step=0)
    rounds.arrive("b", 0)
    rounds.leave("b")
    rounds.arrive("a", 0)
    assert rounds.complete() == 2 and rounds.updated(1) == ["a"]


def test_a_waiting_worker_takes_over_the_share_of_one_that_leaves():
    rounds = SyncRounds(["a", "b"], aggregate=4, step=0)
    rounds.arrive("a", 0)
    assert rounds.arrive("a", 0) == []
    assert rounds.leave("b") == ["a"]
    assert rounds.arrive("a", 0) == ["a"]
    assert rounds.arrive("a", 0) == [] and rounds.complete() == 4


def test_a_worker_that_comes_back_is_a_member_again():
    rounds = SyncRounds(["a", "b"], aggregate=2, step=0)
    rounds.leave("b")
    rounds.arrive("b", 0)
    assert rounds.members == {"a", "b"} and rounds.complete() == 0


def test_no_member_needs_no_update():
    rounds = SyncRounds(["a"], aggregate=1, step=0)
    rounds.leave("a")
    assert rounds.members == set() and rounds.complete() == 0
