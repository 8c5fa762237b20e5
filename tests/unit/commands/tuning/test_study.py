"""A study in its storage: commands, several tuners, mistakes, and interruptions."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.tuning.search import Ending, Search
from ps_train.commands.tuning.study import check_name, without_password
from tests.support.studies import Scripted, done, optuna, run, study_of


def test_a_study_is_in_the_file_of_its_storage(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    run(study_of(tmp_path, storage=url, executions=2), lambda trial, execution: done(execution), trials=1)
    (trial,) = study_of(tmp_path, storage=url, executions=2).finished()
    assert (trial.value, trial.steps) == (0.5, 200)
    assert optuna.load_study(study_name="s", storage=url).best_value == 0.5  # as a dashboard reads it


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
