"""Faults of --inject_fault: their syntax, and the moment at which they strike."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.fault_spec import Fault, Schedule, check_tasks, dropped_share, parse, slowdown_factor
from ps_train.config.job import Job


def test_every_form_is_understood() -> None:
    texts = ["kill:ps:0@200", "stop:worker:1@300+5s", "stop:chief:0@7", "slow:worker:1x5", "drop_push:0.01"]
    assert parse(texts) == [
        Fault(texts[0], "kill", "ps:0", 200),
        Fault(texts[1], "stop", "worker:1", 300, 5.0),
        Fault(texts[2], "stop", "chief:0", 7, 0.0),
        Fault(texts[3], "slow", "worker:1", amount=5.0),
        Fault(texts[4], "drop_push", amount=0.01),
    ]


@pytest.mark.parametrize(
    "text", ["kill:ps:0", "kill:ps@3", "kill:evaluator:0@3", "stop:ps:0@3+5", "slow:ps:0x5", "drop_push:x", "", "burn"]
)
def test_what_is_not_understood_is_an_error_of_one_line_that_shows_the_forms(text: str) -> None:
    with pytest.raises(ConfigError, match="is not understood: use kill:TASK@STEP, ") as caught:
        Job(inject_fault=(text,))
    assert f"inject_fault={text} is not" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("slow:worker:0x0.5", "a factor of 0.5 is not slower: use 1 or more"),
        ("drop_push:1", "a share of 1 is not valid: use one between 0 and 1"),
        ("drop_push:0", "a share of 0 is not valid"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(text: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        parse([text])


def test_a_task_that_the_job_does_not_have_is_refused() -> None:
    check_tasks(parse(["kill:ps:0@1", "drop_push:0.5"]), ["ps:0", "worker:0"])
    with pytest.raises(ConfigError, match="inject_fault=kill:ps:1@1: there is no ps:1: the job has ps:0, worker:0"):
        check_tasks(parse(["kill:ps:1@1"]), ["ps:0", "worker:0"])


def test_each_strikes_once_when_its_step_is_reached_or_passed() -> None:
    schedule = Schedule(parse(["stop:worker:1@300+5s", "kill:ps:0@200", "slow:worker:1x5", "kill:ps:0@320"]))
    assert schedule and schedule.due(199) == []
    assert [fault.step for fault in schedule.due(310)] == [200, 300]
    assert [fault.step for fault in schedule.due(310)] == []
    assert [fault.step for fault in schedule.due(320)] == [320] and not schedule


def test_a_worker_knows_how_slow_it_is_and_which_share_it_loses() -> None:
    texts = ("slow:worker:1x5", "drop_push:0.25")
    assert slowdown_factor(texts, "worker:1") == 5 and slowdown_factor(texts, "worker:0") == 1
    assert dropped_share(texts) == 0.25 and dropped_share(("kill:ps:0@3",)) == 0
