"""Rules of health: silent for a healthy job, and each with its warning, limit and advice."""

from __future__ import annotations

import pathlib
import re

import pytest

import ps_train
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.config.validators import HEALTH_RULES, parse_limits
from ps_train.engine.variables.plan import make_plan
from ps_train.observe.status.health import RULES, findings, warnings
from ps_train.training.tasks.hosted_ps import HostedPsDisplay
from tests.support.status.job import a_status, job_of, step_time

DOCS = pathlib.Path(ps_train.__file__).parents[1] / "docs"
BOTH = ("worker:0", "worker:1")


def found(status, limits="", **fields):
    return findings(status, job_of(health_limits=limits, **fields))


def warned(status, limits="", **fields):
    """The findings that warn, by rule."""
    return {each["rule"]: each for each in found(status, limits, **fields) if each["state"] == "warn"}


def with_ps(**changes):
    status = a_status()
    return {**status, "ps": [{**status["ps"][0], **changes}, status["ps"][1]]}


def with_workers(number, **staleness):
    workers = [{**a_status()["workers"][0], "task": f"worker:{index}"} for index in range(number)]
    return a_status(workers=workers, staleness={**a_status()["staleness"], **staleness})


def test_a_healthy_job_has_no_warning_and_no_advice():
    every = found(a_status())
    assert {each["state"] for each in every} <= {"ok", "unknown"}
    assert {each["rule"] for each in every if each["state"] == "unknown"} == {"device_secs", "ps_network"}
    assert [each["advice"] for each in every] == [""] * len(RULES)
    assert warnings(every) == []


UNHEALTHY = {
    "sync_share": a_status(step_time={task: step_time(pull=0.002, push=0.002) for task in BOTH}),
    "device_secs": a_status(step_time={task: {**step_time(), "transfer": 0.006} for task in BOTH[:1]}),
    "conflict_rate": with_workers(4, conflict_rate=0.96),
    "staleness": a_status(staleness={**a_status()["staleness"], "p95": 4}),
    "loss_rise": a_status(loss_rise=0.6, staleness={**a_status()["staleness"], "mean": 0.7}),
    "input_share": a_status(step_time={task: step_time(input=0.002) for task in BOTH}),
    "ps_cpu": with_ps(cpu=7.9),
    "ps_network": with_ps(measured_network=(1.1e6, 1e9)),
    "balance": with_ps(share=0.9),
    "ps_memory": with_ps(rss_bytes=1.5e10),
    "skipped": a_status(skipped=30),
    "dropped": a_status(dropped=100),
    "unsaved_secs": a_status(events=[{"time": a_status()["time"] - 1000, "kind": "saved", "task": "", "text": ""}]),
    "hold_share": a_status(save={"count": 100, "hold_secs_mean": 0.1, "hold_secs_max": 0.2}),
    "lag_growth": a_status(stream={**a_status()["stream"], "growth": 1.2}),
    "slow_worker": a_status(
        workers=[
            {**a_status()["workers"][0], "task": "worker:0"},
            {**a_status()["workers"][0], "task": "worker:1", "steps_per_sec": 30.0},
        ]
    ),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_warns_alone_and_its_advice_names_a_flag_or_an_action(rule):
    (name,) = warned(UNHEALTHY[rule.name])
    assert name == rule.name
    finding = warned(UNHEALTHY[rule.name])[name]
    assert finding["value"] > finding["limit"] == rule.limit
    assert rule.title in finding["text"]
    assert len(finding["advice"]) > 20
    assert warnings([finding]) == [f"health: {finding['text']}; {finding['advice']} (help: {rule.page})"]


def test_work_beside_training_that_fails_warns_until_it_works():
    status = a_status(side_work={"deltas": {"secs": 4.0, "reason": "No space left on device"}}, step=1)
    (warning,) = warnings(found(status))
    text = "health: deltas: work beside training fails for 4 s; No space left on device"
    assert warning == f"{text} (help: troubleshoot#messages)"
    assert warnings(found(a_status(side_work={}, step=1))) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_limit_can_be_changed(rule):
    assert warned(UNHEALTHY[rule.name], f"{rule.name}:1e9") == {}
    known = [each for each in found(a_status(), f"{rule.name}:0") if each["rule"] == rule.name]
    assert {each["limit"] for each in known} == {0.0}


@pytest.mark.parametrize("update", ["async", "sync", "bounded"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_flags_that_advice_names_exist(rule, update):
    names = {field.name for field in job_fields(Job)}
    for finding in warned(UNHEALTHY[rule.name], update=update).values():
        assert set(re.findall(r"--([a-z_]+)", finding["advice"])) <= names


@pytest.mark.parametrize("part", ["pull", "push", "wait", "update"])
def test_advice_on_synchronisation_follows_its_largest_part(part):
    expected = {"pull": "each pull", "push": "each push", "wait": "--backup_workers", "update": "--num_ps"}
    status = a_status(step_time={task: step_time(**{part: 0.004}) for task in BOTH})
    assert expected[part] in warned(status, update="sync")["sync_share"]["advice"]


@pytest.mark.parametrize(("update", "mean", "rise", "warns"), [
    ("async", 0.51, 0.6, True), ("bounded", 0.9, 5.0, True), ("async", 0.5, 5.0, False), ("async", 0.9, 0.1, False),
    ("async", 0.9, None, False), ("sync", 0.9, 5.0, False),
])  # fmt: skip
def test_a_rising_loss_is_warned_of_where_gradients_are_stale(update, mean, rise, warns):
    status = a_status(loss_rise=rise, staleness={**a_status()["staleness"], "mean": mean})
    assert ("loss_rise" in warned(status, update=update)) == warns


def test_advice_on_waiting_does_not_name_the_mode_that_the_job_has():
    status = a_status(step_time={task: step_time(wait=0.004) for task in BOTH})
    advice = warned(status, update="bounded", max_steps_ahead=2)["sync_share"]["advice"]
    assert "--max_steps_ahead=2..6 or --update=async" in advice


def test_a_saturated_ps_is_named_with_the_gain_of_one_more():
    finding = warned(with_ps(cpu=7.9))["ps_cpu"]
    assert finding["task"] == "ps:0"
    assert re.search(r"one more ps would give about \d\.\dx: --num_ps=3", finding["advice"])


def test_the_slow_worker_is_named_even_where_all_wait_for_it():
    times = {"worker:0": step_time(0.02, wait=0.01), "worker:1": step_time(0.02)}
    (finding,) = warned(a_status(step_time=times), "sync_share:1", update="sync").values()
    assert (finding["rule"], finding["task"], finding["value"]) == ("slow_worker", "worker:1", 2.0)


def test_a_slow_worker_under_async_is_known_by_its_rate():
    (finding,) = warned(UNHEALTHY["slow_worker"]).values()
    assert (finding["task"], round(finding["value"], 2)) == ("worker:1", 1.67)


@pytest.mark.parametrize("steps", [None, 0, 49])
def test_a_worker_that_has_just_begun_is_not_called_slow(steps):
    begun, new = UNHEALTHY["slow_worker"]["workers"]
    assert warned(a_status(workers=[begun, {**new, "steps": steps}])) == {}


def small(status):
    """The same job with a model of 75 KiB."""
    return {**status, "ps": [{**ps, "variable_bytes": 75 << 9} for ps in status["ps"]]}


def large(status):
    """The same job with a model of 2 MiB."""
    return {**status, "ps": [{**ps, "variable_bytes": 1 << 20} for ps in status["ps"]]}


SHORT = a_status(step_time={task: step_time(0.004, pull=0.002, push=0.001) for task in BOTH})
LONG = a_status(step_time={task: step_time(0.04, pull=0.02, push=0.01) for task in BOTH})


def test_short_steps_of_a_small_model_are_healthy_whatever_they_are_made_of():
    assert warned(small(SHORT)) == {}
    (finding,) = [each for each in found(small(SHORT)) if each["rule"] == "sync_share"]
    assert (finding["state"], finding["limit"], finding["value"]) == ("ok", 1.0, 0.75)


@pytest.mark.parametrize("status", [small(LONG), large(SHORT), large(LONG)])
def test_a_slow_network_and_a_large_model_are_reported(status):
    assert [*warned(status)] == ["sync_share"]


def test_waiting_for_a_slow_worker_is_reported_for_a_small_model_too():
    times = {task: step_time(0.02, wait=0.015) for task in BOTH}
    assert [*warned(small(a_status(step_time=times)), update="sync")] == ["sync_share"]


def test_a_given_limit_counts_for_a_small_model_too():
    assert [*warned(small(SHORT), "sync_share:0.5")] == ["sync_share"]


@pytest.mark.parametrize("update", ["sync", "bounded"])
def test_advice_names_no_flag_that_the_update_mode_refuses(update):
    assert "--prefetch_pulls" in warned(LONG)["sync_share"]["advice"]
    assert "--prefetch_pulls" not in warned(LONG, update=update)["sync_share"]["advice"]


def test_every_task_that_is_over_a_limit_has_a_finding():
    status = a_status()
    every = found({**status, "ps": [{**ps, "cpu": 7.9} for ps in status["ps"]]})
    assert [each["task"] for each in every if each["state"] == "warn"] == ["ps:0", "ps:1"]


def test_two_or_three_workers_that_always_meet_are_healthy():
    assert [[*warned(with_workers(number, conflict_rate=1.0))] for number in (2, 3, 4)] == [[], [], ["conflict_rate"]]
    assert [*warned(with_workers(2, conflict_rate=0.6), "conflict_rate:0.5")] == ["conflict_rate"]


def test_nothing_is_judged_before_there_is_enough_to_judge():
    for step in (None, 0, 49):
        assert {each["state"] for each in found({**UNHEALTHY["sync_share"], "step": step})} == {"unknown"}


def test_a_job_of_which_nothing_is_known_has_findings_that_say_so():
    status = a_status(step_time={}, workers=[], staleness=None, save=None, events=[], skipped=None, dropped=None)
    status |= {"stream": None}
    status |= {"ps": [{**ps, "cpu": None, "rss_bytes": None} for ps in status["ps"]]}
    unknown = {each["rule"] for each in found(status) if each["state"] == "unknown"}
    assert unknown == set(HEALTH_RULES) - {"balance"}


def test_the_rules_of_the_flag_are_those_that_exist():
    assert tuple(rule.name for rule in RULES) == HEALTH_RULES


@pytest.mark.parametrize("text", ["x:1", "balance", "balance:", "balance:nan", "balance:-1", "balance:1,,balance:2"])
def test_other_limits_are_refused(text):
    with pytest.raises(ValueError):
        parse_limits(text)


def test_limits_are_read_by_name():
    assert parse_limits("sync_share:0.3, balance:2") == {"sync_share": 0.3, "balance": 2.0}
    assert parse_limits("") == {}


def test_the_cpu_of_a_process_that_computes_too_is_not_that_of_a_ps():
    assert "ps_cpu" in warned(with_ps(cpu=7.9))
    display = HostedPsDisplay()
    display.planned(make_plan([], 2), Cluster.of(job_of(ps_hosts=(), ps_on_workers=True)))
    every = findings(with_ps(cpu=7.9), job_of(), display.exempt)
    assert {each["state"] for each in every if each["rule"] == "ps_cpu"} == {"unknown"}


def test_the_traffic_of_a_silent_ps_is_not_known():
    silent = dict.fromkeys(("sent_bytes_per_sec", "received_bytes_per_sec"))
    status = with_ps(measured_network=[1e6, 1e6], **silent)
    assert {each["value"] for each in found(status) if each["rule"] == "ps_network"} == {None}


def finding_of(rule, status, **fields):
    """The findings of a rule: value and text of each task."""
    return [(each["task"], each["value"], each["text"]) for each in found(status, **fields) if each["rule"] == rule]


def test_staleness_is_divided_among_the_other_workers_that_train():
    ((_, value, text),) = finding_of("staleness", with_workers(5, p95=10))
    assert value == 2.5 and "2.5x (limit 3x)" in text
    status = with_workers(5, p95=10)
    status["workers"][0]["state"] = "left"
    assert finding_of("staleness", status)[0][1] == pytest.approx(10 / 3)
    assert finding_of("staleness", with_workers(1, p95=2))[0][1] == 2


def test_the_balance_is_the_fullest_ps_over_the_mean_of_several():
    assert finding_of("balance", a_status())[0][:2] == ("ps:0", 1.0)
    assert finding_of("balance", with_ps(share=0.9))[0][:2] == ("ps:0", 1.8)
    alone, empty = a_status(ps=a_status()["ps"][:1]), a_status(ps=[{**ps, "share": 0.0} for ps in a_status()["ps"]])
    assert [finding_of("balance", status)[0][1] for status in (alone, empty)] == [None, None]
    assert finding_of("balance", with_ps(share=0.9), ps_weights="3,1")[0][1] is None


@pytest.mark.parametrize(("steps", "count"), [(None, 0), (49, 0), (50, 1)])
def test_the_first_steps_of_a_worker_are_not_compared(steps, count):
    workers = [{**worker, "steps": steps} for worker in a_status()["workers"]]
    compared = [value for _, value, _ in finding_of("slow_worker", a_status(workers=workers)) if value is not None]
    assert compared == [1.0] * count


def test_work_without_time_is_compared_with_nothing():
    waiting = {task: step_time(secs=0.01, wait=0.01) for task in BOTH}
    assert [value for _, value, _ in finding_of("slow_worker", a_status(step_time=waiting), update="sync")] == [None]


@pytest.mark.parametrize(("size", "is_exempt"), [((1 << 20) - 1, True), (1 << 20, False)])
def test_a_model_is_small_below_a_mebibyte(size, is_exempt):
    parts = {task: step_time(secs=0.009, pull=0.004) for task in BOTH}
    ps = [{**one, "variable_bytes": part} for one, part in zip(a_status()["ps"], (size, 0), strict=True)]
    assert ("sync_share" not in warned(a_status(step_time=parts, ps=ps))) == is_exempt
