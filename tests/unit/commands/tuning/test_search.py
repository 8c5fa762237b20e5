"""The state machine of a study's trials, with executions that are scripts instead of processes."""

from __future__ import annotations

import statistics

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.tuning.search import Ending, Search
from ps_train.commands.tuning.space import parse_space
from ps_train.commands.tuning.study import Settings, Study, check_name, without_password

optuna = pytest.importorskip("optuna")

STORAGES = {}
"""The storage of each directory, in memory: a file costs a second for ten trials."""


def settings(path, **changes):
    values = {
        "name": "s",
        "storage": STORAGES.setdefault(path, optuna.storages.InMemoryStorage()),
        "direction": "minimize",
        "sampler": "random",
        "pruner": "none",
        "seed": 1,
        "executions": 1,
        "max_steps": 100,
        "eval_steps": 0,
        "command": {"flags": ["a"]},
    }
    return Settings(**{**values, **changes})


def study_of(path, space=("learning_rate:0..1",), **changes):
    return Study(settings(path, **changes), parse_space(list(space)))


class Scripted:
    """An execution that shows its evaluations, one a look, and then its end."""

    def __init__(self, ending, evaluations=()):
        self.ending, self.left, self.is_stopped = ending, list(evaluations), False

    def poll(self):
        if self.is_stopped:
            return Ending(143, steps=50, cause="its job was ended by SIGTERM")
        return None if self.left else self.ending

    def evaluations(self):
        return [self.left.pop(0)] if self.left else []

    def stop(self):
        self.is_stopped = True

    kill = stop


def run(study, start, trials, looks=1000, **options):
    """Runs a study to its end; returns the (trial, execution) that were started."""
    started = []

    def begin(trial, execution):
        started.append((trial.number, execution))
        return start(trial, execution)

    search = Search(study, begin, trials, **options)
    for _ in range(looks):
        if not search.advance():
            return started
    raise AssertionError(f"the study did not end: {started}")


def done(value, steps=100):
    return Scripted(Ending(0, value, steps))


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


def test_a_study_is_in_the_file_of_its_storage(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    run(study_of(tmp_path, storage=url, executions=2), lambda trial, execution: done(execution), trials=1)
    (trial,) = study_of(tmp_path, storage=url, executions=2).finished()
    assert (trial.value, trial.steps) == (0.5, 200)
    assert optuna.load_study(study_name="s", storage=url).best_value == 0.5  # as a dashboard reads it


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


def test_another_command_is_refused_once_there_are_values(tmp_path):
    with pytest.raises(ConfigError):
        run(study_of(tmp_path), lambda trial, execution: Scripted(Ending(2, cause="no")), trials=1)
    run(study_of(tmp_path, command={"flags": ["b"]}), lambda trial, execution: done(1.0), trials=1)
    with pytest.raises(ConfigError, match=r"is of another command \(flags: b, now c\)"):
        study_of(tmp_path, command={"flags": ["c"]})


def test_a_mistake_leaves_nothing_in_the_study(tmp_path):
    grid = {"space": ["batch_size:8,16"], "sampler": "grid"}
    wrong = study_of(tmp_path, **grid, direction="maximize", command={"flags": ["wrong"]})
    with pytest.raises(ConfigError):
        run(wrong, lambda trial, execution: Scripted(Ending(2, cause="no")), trials=2)
    again = study_of(tmp_path, **grid, direction="maximize", command={"flags": ["wrong"]})  # the model was wrong
    with pytest.raises(ConfigError):
        run(
            again, lambda trial, execution: Scripted(Ending(1, cause="x") if trial.number == 1 else Ending(2)), trials=2
        )
    assert not again.is_new_here
    right = study_of(tmp_path, ["batch_size:8,16,32"], sampler="grid")  # Optuna changes neither choices nor direction
    assert right.is_new_here
    run(right, lambda trial, execution: done(0.5), trials=3)
    assert right.study.direction.name == "MINIMIZE" and len({trial.flags for trial in right.finished()}) == 3


def test_a_point_of_a_grid_whose_trial_does_not_count_is_tried_again(tmp_path):
    grid = {"space": ["batch_size:8,16,32"], "sampler": "grid"}
    with pytest.raises(ConfigError):
        run(study_of(tmp_path, **grid), lambda trial, execution: Scripted(Ending(2, cause="no")), trials=3)
    left = study_of(tmp_path, **grid)
    left._new()  # a tuner that dies here has told no flags
    run(study_of(tmp_path, **grid), lambda trial, execution: done(0.5), trials=3)
    assert len({trial.flags for trial in study_of(tmp_path, **grid).finished()}) == 3


def test_a_tuner_that_dies_between_two_writes_leaves_a_trial_that_goes_on(tmp_path):
    study = study_of(tmp_path, executions=2)
    trial = study.next_trial([], 1)
    assert trial is not None
    trial._trial.set_user_attr("steps", [100])  # before the value of the execution
    trial._trial.set_user_attr("does_not_count", True)  # before the end of a trial with a mistake
    again = study_of(tmp_path, executions=2)
    assert run(again, lambda trial, execution: done(0.5), trials=1) == [(0, 0), (0, 1)]
    assert [(found.state, found.steps) for found in again.finished()] == [("complete", 200)]


def test_a_storage_has_several_studies(tmp_path):
    url = str(tmp_path / "journal.log")
    run(study_of(tmp_path, storage=url), lambda trial, execution: done(0.5), trials=1)
    assert len(study_of(tmp_path, storage=url).finished()) == 1
    assert study_of(tmp_path, storage=url, name="other").finished() == []
    found = optuna.load_study(study_name="s", storage=study_of(tmp_path, storage=url)._storage)
    found.set_user_attr("command", None)
    with pytest.raises(ConfigError, match="is not of this program"):
        study_of(tmp_path, storage=url)


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_tuners_of_several_machines_share_a_study_and_each_goes_on_with_its_own_trials(tmp_path, sampler):
    def joined(name):
        space = ["learning_rate:0..1:0.1" if sampler == "grid" else "learning_rate:0..1"]
        return study_of(tmp_path, space, storage=str(tmp_path / "j.log"), sampler=sampler, tuner=f"{name}:/s 1")

    def start(trial, execution):
        return Scripted(Ending(0, 0.5, 100), [(1, 1.0)] * 2)

    first, second = Search(joined("a"), start, trials=5), Search(joined("b"), start, trials=5)
    first.advance()
    second.advance()  # one that dies here
    assert (joined("b").left(), joined("b").elsewhere()) == ([1], ["a:/s"]) and not joined("c").left()
    again = joined("b")
    assert not again.is_new_here and joined("c").is_new_here
    third = Search(again, start, trials=5)
    while first.advance() | third.advance():
        assert len(again.left()) <= 1
    found = again.finished()
    assert [trial.state for trial in found] == ["complete"] * 5
    assert len({trial.flags for trial in found}) == 5
    assert joined("c").next_trial([], 5) is None


def test_another_command_does_not_delete_the_study_of_a_tuner_that_runs(tmp_path):
    study_of(tmp_path, tuner="a:/s 1").next_trial([], 1)
    with pytest.raises(ConfigError, match=r"is of another command \(flags: a, now c\)"):
        study_of(tmp_path, tuner="b:/s 2", command={"flags": ["c"]})


def test_a_password_is_not_shown(tmp_path):
    assert without_password("mysql://me:secret@host/db") == "mysql://me:***@host/db"
    assert without_password("sqlite:////a:b/c@d.db") == "sqlite:////a:b/c@d.db"
    with pytest.raises(ConfigError) as caught:
        study_of(tmp_path, storage="mysql+nodriver://me:secret@x/y")
    assert "secret" not in str(caught.value)


def test_a_storage_that_cannot_be_used_is_refused(tmp_path):
    for url in ("sqlite:////nowhere/at/all.db", "nonsense", "mysql+nodriver://x/y"):
        with pytest.raises(ConfigError, match="cannot be used"):
            study_of(tmp_path, storage=url)


def test_a_name_that_is_not_known_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"--pruner=medain is not known: did you mean median\?"):
        check_name("pruner", "medain", ("none", "median"))
