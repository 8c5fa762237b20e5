"""The text for Prometheus, read by Prometheus' own parser."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ps_train.cluster.membership.records import TELEMETRY
from ps_train.observe.status.prometheus import text
from ps_train.training.tasks.displays import displays
from tests.support.status.job import board_of, counters_of, progress_of, step_time
from tests.support.status.tasks import store_of, worker_status


@pytest.fixture
def status():
    board = board_of(model='m:M"\\\n')
    board.read_records(0, store_of(worker_status(0), worker_status(1)))
    board.progress(progress_of(1000), counters_of(), None)
    return {**board.status(), "step_time": {"worker:0": step_time(pull=0.001)}, "metrics": {"accuracy": 0.9}}


def samples(status, shown=None):
    """Name and labels to value."""
    families = list(text_string_to_metric_families(text(status, shown or displays())))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation for family in families)
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


def test_values_are_those_of_the_status(status):
    found = samples(status)
    assert found[("ps_train_global_step",)] == 1000.0
    assert found[("ps_train_skipped_gradients_total",)] == 0.0
    assert found[("ps_train_step_part_seconds", ("part", "pull"), ("task", "worker:0"))] == 0.001
    assert found[("ps_train_metric", ("name", "accuracy"))] == 0.9
    assert found[("ps_train_task_state", ("state", "serving"), ("task", "ps:1"))] == 1.0
    assert found[("ps_train_state", ("state", "training"))] == 1.0


def test_a_task_that_no_longer_reports_has_its_state_and_its_last_heartbeat_only(monkeypatch):
    board, now = board_of(), time.monotonic()
    for uptime in (1.0, 2.0):
        telemetry = {"uptime": uptime, "cpu_secs": uptime, "steps": uptime, "examples": uptime, "rss_bytes": 3e8}
        status = dataclasses.replace(worker_status(1, heartbeat=int(uptime)), telemetry=telemetry)
        board.read_records(0, store_of(status))
    assert ("ps_train_worker_examples_per_second", ("task", "worker:1")) in samples(board.status())
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    names = {name for name, *labels in samples(board.status()) if ("task", "worker:1") in labels}
    assert names == {"ps_train_task_state", "ps_train_heartbeat_age_seconds"}


def test_a_process_that_is_a_ps_and_a_worker_is_counted_once():
    board = board_of(ps_hosts=(), ps_on_workers=True)
    telemetry = {"uptime": 1.0, "cpu_secs": 1.0, "rss_bytes": 3e8}
    status = dataclasses.replace(worker_status(0), telemetry=telemetry)
    board.read_records(0, {**store_of(status), TELEMETRY: json.dumps(telemetry)})
    found = samples(board.status(), board.displays)
    memory = {key: value for key, value in found.items() if key[0] == "ps_train_resident_memory_bytes"}
    assert memory == {("ps_train_resident_memory_bytes", ("task", "worker:0")): 3e8}
    assert ("ps_train_variable_bytes", ("task", "ps:0")) in found


def test_the_lag_of_data_without_an_end_is_there_by_partition(status):
    assert ("ps_train_lag_growth",) not in samples(status)
    lag = {"lag": 7.0, "unit": "rows", "growth": 1.5, "partitions": [{"partition": 3, "lag": 7.0, "task": "worker:0"}]}
    lag |= {"late_rows": 2.0, "next_cut": 1795737600.0}
    found = samples({**status, "stream": lag})
    assert found[("ps_train_partition_lag", ("partition", "3"), ("unit", "rows"))] == 7.0
    assert found[("ps_train_lag_growth",)] == 1.5
    assert found[("ps_train_late_rows_total",)] == 2.0
    assert found[("ps_train_next_cut_timestamp_seconds",)] == 1795737600.0


def test_metrics_of_slices_have_field_and_value():
    board = board_of(eval_by="country")
    board.set_metrics({"auc": 0.8, 'auc/country=d"e': 0.7})
    assert board.status()["metrics"] == {"auc": 0.8}
    assert board.status()["slices"] == {"field": "country", "rows": [{"value": 'd"e', "metrics": {"auc": 0.7}}]}
    found = samples(board.status())
    assert found[("ps_train_slice_metric", ("field", "country"), ("name", "auc"), ("value", 'd"e'))] == 0.7
    assert found[("ps_train_metric", ("name", "auc"))] == 0.8


def test_texts_of_the_user_are_escaped(status):
    (labels,) = [key[1:] for key in samples(status) if key[0] == "ps_train_job_info"]
    assert dict(labels)["model"] == 'm:M"\\\n'


def test_values_that_are_not_known_are_left_out():
    found = samples(board_of().status())
    assert ("ps_train_loss",) not in found
    assert ("ps_train_max_steps",) in found


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_not_finite_can_be_read(status, value):
    found = samples({**status, "loss": value})[("ps_train_loss",)]
    assert found == value or (found != found and value != value)
