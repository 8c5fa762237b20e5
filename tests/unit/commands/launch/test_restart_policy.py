"""The children that the launcher starts again."""

from __future__ import annotations

from ps_train.commands.launch.restart_policy import RestartPolicy


def test_each_task_is_started_again_so_many_times_with_growing_pauses():
    restarts = RestartPolicy(max_restarts=3)
    assert [restarts.delay("ps:0", -9) for _ in range(4)] == [0.5, 1.0, 2.0, None]
    assert restarts.restarts_made("ps:0") == 3
    assert restarts.delay("worker:1", 1) == 0.5


def test_pauses_do_not_grow_for_ever():
    restarts = RestartPolicy(max_restarts=20)
    assert [restarts.delay("ps:0", 1) for _ in range(20)][-1] == 30.0


def test_a_wrong_configuration_is_never_started_again():
    assert RestartPolicy(max_restarts=3).delay("worker:0", 2) is None


def test_what_ended_well_is_not_started_again():
    assert RestartPolicy(max_restarts=3).delay("worker:0", 0) is None


def test_a_task_that_a_signal_has_stopped_is_not_started_again():
    assert RestartPolicy(max_restarts=3).delay("worker:0", 143) is None
    assert RestartPolicy(max_restarts=3).delay("worker:0", -15) == 0.5  # killed before it could save


def test_nothing_is_started_again_unless_it_was_asked_for():
    assert RestartPolicy(max_restarts=0).delay("ps:0", -9) is None
