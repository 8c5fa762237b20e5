"""Metrics as flags name them: which value is better, when to stop early, and what is refused."""

from __future__ import annotations

import math

import pytest

from ps_train.config.metric_rule import EarlyStop, ExportChoice, MetricRule, parse_early_stop, parse_export

NAN = math.nan


@pytest.mark.parametrize("name", ["accuracy", "auc", "precision", "samples", "image_mean", "imse", "maes"])
def test_most_metrics_are_better_the_larger_they_are(name):
    rule = MetricRule(name)
    assert rule.is_better(name, 2.0, 1.0) and not rule.is_better(name, 1.0, 2.0)


@pytest.mark.parametrize("name", ["loss", "logloss", "test_Loss", "error_rate", "perplexity", "mse", "val_mae", "rmse"])
def test_losses_and_errors_are_better_the_smaller_they_are(name):
    rule = MetricRule(name)
    assert rule.is_better(name, 1.0, 2.0) and not rule.is_better(name, 2.0, 1.0)


def test_a_sign_decides_otherwise():
    assert MetricRule("cost", False).is_better("cost", 1.0, 2.0)
    assert MetricRule("error_free", True).is_better("error_free", 2.0, 1.0)


def test_the_same_value_is_not_better_and_nan_is_the_worst():
    rule = MetricRule("auc")
    assert not rule.is_better("auc", 1.0, 1.0) and not rule.is_better("auc", NAN, None)
    assert rule.is_better("auc", -5.0, None) and rule.is_better("auc", -5.0, NAN)
    assert rule.best("auc", [NAN, 1.0, 3.0, NAN, 2.0]) == 3.0
    assert rule.best("auc", [NAN]) is None and rule.best("auc", []) is None


def test_the_metric_is_the_one_of_the_name_or_the_first():
    metrics = {"auc": 0.5, "logloss": 0.7}
    assert MetricRule().select(metrics) == "auc" and MetricRule("logloss").select(metrics) == "logloss"
    for rule, found in [(MetricRule("acc"), metrics), (MetricRule(), {})]:
        with pytest.raises(KeyError):
            rule.select(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auc:3", EarlyStop(MetricRule("auc"), 3)),
        ("-cost:10", EarlyStop(MetricRule("cost", False), 10)),
        ("+error_free:1", EarlyStop(MetricRule("error_free", True), 1)),
        ("top-5/accuracy:2", EarlyStop(MetricRule("top-5/accuracy"), 2)),
    ],
)
def test_an_early_stop_is_a_metric_and_a_patience(text, expected):
    assert parse_early_stop(text) == expected


@pytest.mark.parametrize(
    "text", ["", "auc", "auc:", "auc:0", "auc:-1", "auc:1.5", ":3", "-:3", "--a:3", "a b:3", "a:b:3"]
)
def test_another_early_stop_is_refused(text):
    assert parse_early_stop(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("final", ExportChoice("final", MetricRule())),
        ("latest", ExportChoice("latest", MetricRule())),
        ("best", ExportChoice("best", MetricRule())),
        ("best:auc", ExportChoice("best", MetricRule("auc"))),
        ("best:-cost", ExportChoice("best", MetricRule("cost", False))),
        ("split", ExportChoice("final", MetricRule(), True)),
        ("best:auc,split", ExportChoice("best", MetricRule("auc"), True)),
    ],
)
def test_an_export_is_a_kind_and_for_the_best_a_metric(text, expected):
    assert parse_export(text) == expected


@pytest.mark.parametrize("text", ["", "Best", "best:", "latest:auc", "final:auc", "best:a:b", "all"])
def test_another_export_is_refused(text):
    assert parse_export(text) is None


def steps(*values):
    return list(zip(range(10, 1000, 10), values, strict=False))


@pytest.mark.parametrize(
    ("values", "patience", "reason"),
    [
        ([], 1, ""),
        ([0.5], 1, ""),
        ([0.5, 0.6, 0.7], 1, ""),
        ([0.5, 0.5], 1, "auc: 0.5 at step 10 is the best, in 1 evaluations up to step 20"),
        ([0.5, 0.6, 0.4, 0.3], 2, "auc: 0.6 at step 20 is the best, in 2 evaluations up to step 40"),
        ([0.5, 0.6, 0.4, 0.7, 0.1], 2, ""),
        ([0.5, NAN, NAN], 2, "auc: 0.5 at step 10 is the best, in 2 evaluations up to step 30"),
        ([NAN, NAN], 2, "auc: it is never a number, in 2 evaluations up to step 20"),
        ([NAN, 0.1, 0.2], 2, ""),
        ([0.5, 0.4, 0.3, 0.9], 2, "auc: 0.5 at step 10 is the best, in 2 evaluations up to step 30"),
    ],
)
def test_a_metric_that_gets_no_better_is_a_reason_to_stop(values, patience, reason):
    assert EarlyStop(MetricRule("auc"), patience).reason(steps(*values)) == reason


def test_a_loss_that_gets_no_smaller_is_a_reason_to_stop():
    stop = EarlyStop(MetricRule("loss"), 2)
    assert stop.reason(steps(3.0, 2.0, 1.0)) == ""
    assert stop.reason(steps(1.0, 2.0, 3.0)).startswith("loss: 1 at step 10")
