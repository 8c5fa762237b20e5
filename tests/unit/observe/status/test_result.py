"""Result of a run: the lines on the console and result.json."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ps_train.config.job import Job
from ps_train.engine.updates.counters.counter_values import RunCounterValues
from ps_train.observe.status.result import RunSummary


class TestRunSummary:
    """A run of 50 steps that resumed a job at step 150."""

    def summary(self, step=200, made=50):
        zeros = np.zeros([1, 2], np.int64)
        tally = RunCounterValues("async", ["worker:0"], 1, 6400.0, skipped=0, dropped=0, staleness=zeros, waiting=zeros)
        return RunSummary(step, made, 32.0 * made, wall_secs=4.0, loss=0.5, metrics={}, counters=tally)

    def test_rates_are_of_this_run_and_counts_of_the_whole_job(self):
        result = self.summary().result(Job())
        assert (result["global_step"], result["examples"]) == (200, 6400)
        assert (result["steps_per_sec"], result["examples_per_sec"]) == (12.5, 400.0)

    def test_the_console_shows_the_same_rates(self):
        lines = self.summary().lines(Job(max_steps=200), "stopped")
        assert lines == ["trained 50 steps in 4.0s: 12 global steps/s, 400 examples/s"]

    @pytest.mark.parametrize(
        ("count", "mean", "longest", "line"),
        [
            (1, 0.0069, 0.0069, "saved 1 checkpoint; saving paused updates for 7 ms"),
            (3, 0.0084, 1.26, "saved 3 checkpoints; saving paused updates for 8 ms on average, 1.3 s at most"),
            (2, 0.0001, 0.0002, "saved 2 checkpoints; saving paused updates for 1 ms on average, 1 ms at most"),
        ],
    )
    def test_the_time_of_saving_is_told_in_words(self, count, mean, longest, line):
        saving = {"count": count, "hold_secs_mean": mean, "hold_secs_max": longest}
        assert dataclasses.replace(self.summary(), saving=saving).lines(Job(max_steps=200), "stopped")[1] == line

    def test_a_run_that_ends_early_says_why_and_where(self):
        assert self.summary().lines(Job(max_steps=300), "stopped")[1:] == ["stopped at step 200 of 300"]

    def test_a_run_that_had_nothing_to_do_says_so(self):
        lines = self.summary(made=0).lines(Job(max_steps=200), "stopped")
        assert lines == ["this job is finished already, at step 200 of 200"]

    def test_the_loss_scale_is_in_the_result_if_there_is_one(self):
        assert "loss_scale" not in self.summary().result(Job())
        scaled = dataclasses.replace(self.summary(), facts={"loss_scale": 1024.0})
        assert scaled.result(Job())["loss_scale"] == 1024.0

    def test_metrics_of_slices_are_rows_of_their_own(self):
        metrics = {"auc": 0.8, "auc/country=de": 0.7, "examples/country=de": 5.0, "auc/country=a/b=c": 0.6}
        summary = dataclasses.replace(self.summary(), metrics=metrics)
        result = summary.result(Job(eval_by="country"))
        assert result["metrics"] == {"auc": 0.8}
        assert result["slices"] == {"country": {"de": {"auc": 0.7, "examples": 5.0}, "a/b=c": {"auc": 0.6}}}
        assert "slices" not in self.summary().result(Job(eval_by="country"))
        assert summary.result(Job())["metrics"] == metrics
