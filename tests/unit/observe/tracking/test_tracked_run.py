"""The facts of a run: flags with their sources, arguments, fingerprints, the commit, and kept ids."""

from __future__ import annotations

import json
import subprocess

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config import tracker_check as trackers
from ps_train.config.flags import parse
from ps_train.config.job import Job
from ps_train.config.tracker_check import SOURCES_VARIABLE, TRACK_PARENT, check_tracker, told_sources
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.observe.tracking.tracked_run import commit_of, source_file_of, tracked_run

HOSTS = {"ps_hosts": ("a:1",), "worker_hosts": ("a:2", "a:3")}
PLAN = make_plan([VariableSpec("w", (4, 2), "float32", 4)], 1)
VARIABLES = {"variable w": "[4, 2] float32"}


def run_of(job, directory, plan=PLAN, variables=VARIABLES):
    return tracked_run(job, plan, variables, str(directory), "abc", "")


def test_flags_have_their_sources_and_arguments_their_names(tmp_path, monkeypatch):
    file = tmp_path / "job.flags"
    file.write_text("--max_steps=7\n--model_arg=hidden=3\n")
    arguments = [f"--flagfile={file}", "--optimizer=adam", "--optimizer_arg=epsilon=1e-6", "--track=mlflow"]
    given = parse(arguments, {}).job
    told = told_sources(given, {})
    cluster = ["--ps_hosts=a:1", "--worker_hosts=a:2,a:3", "--job_name=worker", "--task_index=0", "--max_steps=7"]
    cluster.append("--model_dir=/s/trials/0007/0/model")
    chief = parse([*cluster, "--model_arg=hidden=3", *arguments[1:]], {}).job  # as the launcher starts it
    monkeypatch.setenv(SOURCES_VARIABLE, told[SOURCES_VARIABLE])
    monkeypatch.setenv(TRACK_PARENT, "study 1")
    run = run_of(chief, tmp_path)
    assert run.parameters["max_steps"] == "7" and run.parameters["batch_size"] == "32"
    assert run.parameters["model_arg.hidden"] == "3" and run.parameters["optimizer_arg.epsilon"] == "1e-6"
    assert run.parameters["num_ps"] == "1" and run.parameters["num_workers"] == "2"
    assert "ps_hosts" not in run.parameters
    assert (run.parent, run.name, run.trial) == ("study 1", "0007/0/model", 7)
    sources = {name: text for name, text in run.tags.items() if name.startswith("source.")}
    line = "the command line"
    assert sources == {
        "source.max_steps": f"{file}:1", "source.model_arg": f"{file}:2", "source.model_arg.hidden": f"{file}:2",
        "source.optimizer": line, "source.optimizer_arg": line, "source.optimizer_arg.epsilon": line,
        "source.track": line,
    }  # fmt: skip
    expected = {"max_steps", "optimizer", "model_arg.hidden", "optimizer_arg.epsilon", "num_ps", "num_workers"}
    assert run.hyperparameters.keys() == expected
    assert told_sources(Job(), {}) == {}


def test_fingerprints_change_with_the_model_and_the_plan(tmp_path):
    job = Job(**HOSTS)

    def found(**changes):
        return [run_of(job, tmp_path, **changes).tags[f"fingerprint.{name}"] for name in ("model", "plan")]

    first, wider = found(), make_plan([VariableSpec("w", (4, 3), "float32", 4)], 1)
    assert first == found() and all(len(text) == 16 for text in first)
    assert found(plan=wider)[0] == first[0] and found(plan=wider)[1] != first[1]
    assert found(variables={"variable w": "[4, 3] float32"})[0] != first[0]


def test_the_commit_is_that_of_the_models_file(tmp_path):
    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    path = tmp_path / "net.py"
    path.write_text("x = 1\n")
    assert commit_of(str(path)) == "" == commit_of(str(tmp_path / "none.py")) == commit_of("")
    git("init", "-q")
    git("add", "net.py")
    git("commit", "-q", "-m", "first")
    assert commit_of(str(path)) == git("rev-parse", "HEAD")
    path.write_text("x = 2\n")
    assert commit_of(str(path)) == git("rev-parse", "HEAD") + "-dirty"
    (tmp_path / "other.py").write_text("")
    assert commit_of(str(tmp_path / "other.py")) == ""
    assert source_file_of(object()) == "" and source_file_of(git) == ""


def test_an_id_is_kept_beside_the_others(tmp_path):
    run = run_of(Job(**HOSTS), tmp_path)
    assert run.kept_id("mlflow") == ""
    run.keep_id("mlflow", "1")
    run.keep_id("wandb", "2")
    assert (run.kept_id("mlflow"), run.kept_id("wandb")) == ("1", "2")
    for text in ("[]", "{", json.dumps({"mlflow": 3})):
        (tmp_path / "tracking.json").write_text(text)
        assert run.kept_id("mlflow") == ""


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_missing_package_is_named_with_its_installation(tmp_path, monkeypatch, has_folder):
    monkeypatch.setattr(trackers, "_PACKAGES", {"wandb": ("no_such_wandb", "pip install '.[wandb]'")})
    if has_folder:
        (tmp_path / "no_such_wandb").mkdir()
        monkeypatch.syspath_prepend(tmp_path)
    job = parse(["--track=wandb"], {}).job
    with pytest.raises(ConfigError, match=r"track=wandb \(from the command line\) needs no_such_wandb: pip install"):
        check_tracker(job)
    check_tracker(Job())
