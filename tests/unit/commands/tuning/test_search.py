"""The state machine of a study's trials, with executions that are scripts instead of processes."""

from __future__ import annotations

import statistics

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.tuning.search import Ending, Search
from tests.support.studies import Scripted, done, run, study_of


def test_the_value_is_the_mean_over_executions_and_their_spread_is_stored(tmp_path):
    study = study_of(tmp_path, executions=3)
    values = [0.5, 0.25, 0.75]
    assert run(study, lambda trial, execution: done(values[execution]), trials=2) == [
        (trial, execution) for trial in (0, 1) for execution in range(3)
    ]
    first, second = study.finished()
    assert (first.value, first.spread, first.steps) == (0.5, statistics.stdev(values), 300)
    assert first.state == second.state == "complete" and first.flags != second.flags
    assert [trial.number for trial in study.best(5)] == [0, 1]


def test_a_failed_trial_is_recorded_with_its_cause_and_the_study_goes_on(tmp_path):
    study = study_of(tmp_path)
    ends = {0: Scripted(Ending(1, cause="the loss is NaN")), 1: done(float("nan")), 2: done(None), 3: done(0.5)}
    run(study, lambda trial, execution: ends[trial.number], trials=4)
    assert [trial.state for trial in study.finished()] == ["failed", "failed", "failed", "complete"]
    assert study.finished()[0].cause == "the loss is NaN"
    assert "not finite" in study.finished()[1].cause


def test_a_mistake_that_every_trial_would_repeat_ends_the_study(tmp_path):
    study = study_of(tmp_path)
    with pytest.raises(ConfigError, match="trial 1: model_arg hiden is not an argument"):
        run(study, lambda trial, _: Scripted(Ending(2, cause="model_arg hiden is not an argument"))
            if trial.number else done(1.0), trials=3)  # fmt: skip
    assert [trial.state for trial in study.finished()] == ["complete"]  # the mistake is not one of the three
    assert run(study_of(tmp_path), lambda trial, execution: done(1.0), trials=3) == [(2, 0), (3, 0)]


def test_an_execution_that_was_killed_goes_on_once(tmp_path):
    study, ends = study_of(tmp_path), [Ending(-9, cause="its job was ended by SIGKILL")] * 3 + [Ending(0, 0.5, 100)]
    assert run(study, lambda trial, execution: Scripted(ends.pop(0)), trials=2) == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert [trial.state for trial in study.finished()] == ["failed", "complete"]


def test_several_trials_run_at_a_time(tmp_path):
    study, most = study_of(tmp_path), []

    def start(trial, execution):
        most.append(len(study.left()))
        return Scripted(Ending(0, 0.5, 100), [(1, 1.0)] * 3)

    run(study, start, trials=5, parallel=2)
    assert max(most) == 2 and len(study.finished()) == 5


@pytest.mark.parametrize("sampler", ["random", "tpe", "cmaes", "grid"])
def test_a_study_that_is_interrupted_anywhere_proposes_what_it_would_have_proposed(tmp_path, sampler):
    space = ["learning_rate:0..1:0.1", "model_arg.n:1..3"]
    trials = 13 if sampler == "tpe" else 6

    def start(trial, execution):
        return done(float(trial.flags[0].rpartition("=")[2]) + execution)

    (tmp_path / "whole").mkdir()
    whole = study_of(tmp_path / "whole", space, executions=2, sampler=sampler)
    run(whole, start, trials)
    for _ in range(100):
        study = study_of(tmp_path, space, executions=2, sampler=sampler)  # as a new process would
        search = Search(study, start, trials)
        search.advance()
        if not search.advance():
            break
    assert [(trial.flags, trial.value) for trial in study.finished()] == [
        (trial.flags, trial.value) for trial in whole.finished()
    ]


def test_a_finished_execution_is_not_repeated_after_an_interruption(tmp_path):
    study = study_of(tmp_path, executions=3)
    started = []

    def start(trial, execution):
        started.append((trial.number, execution))
        return done(float(execution)) if execution < 2 else Scripted(None, [(1, 1.0)] * 100)

    search = Search(study, start, trials=1)
    for _ in range(5):
        search.advance()
    assert started == [(0, 0), (0, 1), (0, 2)]
    again = study_of(tmp_path, executions=3)
    assert again.left() == [0]
    assert run(again, lambda trial, execution: done(5.0), trials=1) == [(0, 2)]
    assert again.finished()[0].value == 2.0 and again.finished()[0].steps == 300


def test_the_number_of_trials_counts_the_finished_ones_in_all(tmp_path):
    run(study_of(tmp_path), lambda trial, execution: done(0.5), trials=2)
    assert run(study_of(tmp_path), lambda trial, execution: done(0.5), trials=2) == []
    assert run(study_of(tmp_path), lambda trial, execution: done(0.5), trials=3) == [(2, 0)]


def test_a_grid_ends_with_its_last_point(tmp_path):
    study = study_of(tmp_path, ["optimizer:adam,sgd", "batch_size:8,16"], sampler="grid")
    run(study, lambda trial, execution: done(0.5), trials=50)
    assert len({trial.flags for trial in study.finished()}) == len(study.finished()) == 4


def test_the_median_pruner_stops_a_trial_after_an_evaluation(tmp_path):
    study = study_of(tmp_path, pruner="median", eval_steps=25)
    bad = {}

    def start(trial, execution):
        value = 9.0 if trial.number == 6 else 0.5
        found = Scripted(Ending(0, value, 100), [(27, value), (50, value), (81, value)])
        bad[trial.number] = found
        return found

    run(study, start, trials=8)
    assert [trial.state for trial in study.finished()] == ["complete"] * 6 + ["pruned", "complete"]
    assert bad[6].is_stopped and len(bad[6].left) == 2 and study.finished()[6].steps == 50


def test_hyperband_stops_most_of_the_bad_trials(tmp_path):
    study = study_of(tmp_path, pruner="hyperband", eval_steps=10)
    run(study, lambda trial, execution: Scripted(Ending(0, float(trial.number), 100),
        [(step, float(trial.number)) for step in range(10, 100, 10)]), trials=20)  # fmt: skip
    states = [trial.state for trial in study.finished()]
    assert states[0] == "complete" and states.count("pruned") >= 10


def test_the_pruner_may_spare_the_later_executions(tmp_path):
    study = study_of(tmp_path, pruner="median", eval_steps=25, executions=2)
    started = run(study, lambda trial, execution: done(9.0 if trial.number == 6 else 0.5), trials=7)
    assert (6, 1) not in started and study.finished()[6].state == "pruned" and study.finished()[6].steps == 100


def test_a_point_of_a_grid_whose_trial_does_not_count_is_tried_again(tmp_path):
    grid = {"space": ["batch_size:8,16,32"], "sampler": "grid"}
    with pytest.raises(ConfigError):
        run(study_of(tmp_path, **grid), lambda trial, execution: Scripted(Ending(2, cause="no")), trials=3)
    left = study_of(tmp_path, **grid)
    left._new()  # a tuner that dies here has told no flags
    run(study_of(tmp_path, **grid), lambda trial, execution: done(0.5), trials=3)
    assert len({trial.flags for trial in study_of(tmp_path, **grid).finished()}) == 3
