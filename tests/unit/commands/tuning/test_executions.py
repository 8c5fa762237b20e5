"""Jobs of a study: their flags, the cause of their failures, and what is left of a tuner that has died."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import socket
import subprocess
import types

import pytest

from ps_train.base.console import Console
from ps_train.base.errors import ConfigError
from ps_train.base.process_ids import host_identity, start_time
from ps_train.commands.tuning import executions
from ps_train.commands.tuning.executions import (
    Jobs,
    _cause,
    _last_step,
    end_leftovers,
    put_aside_trials,
    tuner_of,
    unknown_objective,
)
from ps_train.config.job import Job
from ps_train.config.tracker_check import flag_sources
from tests.support.machine.proc import is_alive


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def leave(directory, pid, **changes):
    """Writes the record of a tuner that has died."""
    record = {"host": socket.gethostname(), "machine": host_identity(), "pid": pid, "started": start_time(pid)}
    folder = directory / "trials" / "0003" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "processes.json").write_text(json.dumps([{**record, **changes}]))


def test_a_process_that_is_left_is_ended_at_the_deadline(tmp_path, sleeper, monkeypatch):
    monkeypatch.setattr(executions, "_STOP_SECS", 0.2)
    leave(tmp_path, sleeper.pid)
    said = io.StringIO()
    end_leftovers(str(tmp_path), Console(said))
    assert not is_alive(sleeper.pid) and f"process {sleeper.pid} of trials/0003/0" in said.getvalue()


def test_another_process_of_the_same_number_lives_on(tmp_path, sleeper):
    leave(tmp_path, sleeper.pid, started="1")
    end_leftovers(str(tmp_path), Console(io.StringIO()))
    assert is_alive(sleeper.pid)


def test_a_process_of_another_host_is_refused_and_a_damaged_record_is_ignored(tmp_path, sleeper):
    leave(tmp_path, sleeper.pid, host="elsewhere")
    with pytest.raises(ConfigError, match=f"process {sleeper.pid} of trials/0003/0 may still run on elsewhere"):
        end_leftovers(str(tmp_path), Console(io.StringIO()))
    for text in ("", "[{}]", "{", "[1]", '[{"pid": -1}]'):
        (tmp_path / "trials/0003/0/processes.json").write_text(text)
        end_leftovers(str(tmp_path), Console(io.StringIO()))


def test_a_job_has_the_flags_of_the_study_of_its_trial_and_of_its_execution(monkeypatch):
    jobs = Jobs("/s", "auc", ("--model=net:Net", "--max_steps=9"), seed=5)
    assert jobs.own_flags(["--learning_rate=0.1"], 2, "/s/trials/0000/2/model") == [
        "--learning_rate=0.1",
        "--seed=7",
        "--model_dir=/s/trials/0000/2/model",
        "--status_port=-1",
    ]
    shown = dataclasses.replace(jobs, arguments=("--status_port=0",))
    assert "--status_port=-1" not in shown.own_flags([], 0, "/m")
    monkeypatch.setenv("PS_TRAIN_FIT_ERRORS", "/file")
    trial = types.SimpleNamespace(number=4, flags=["--learning_rate=0.1", "--model_arg=hidden=8"])
    assert "PS_TRAIN_TRACK_PARENT" not in jobs.environment_of_trial(trial)
    sources = {"max_steps": "job.flags:2"}
    tracked = dataclasses.replace(jobs, tracked_as="clicks", sources=sources).environment_of_trial(trial)
    job = Job(model="net:Net", learning_rate=0.1, model_arg=("hidden=8",))
    assert flag_sources(job, tracked) == {
        "max_steps": "job.flags:2",
        "seed": "study clicks",
        "model_dir": "study clicks",
        "learning_rate": "trial 4 of study clicks",
        "model_arg.hidden": "trial 4 of study clicks",
    }
    assert tracked["PS_TRAIN_TRACK_PARENT"] == "clicks" and tracked["PS_TRAIN_FIT_PARENT"] == str(os.getpid())
    assert "PS_TRAIN_FIT_ERRORS" not in tracked  # a failed trial is no error of the call


def test_a_directory_keeps_its_mark_under_another_name_and_no_other_has_it(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    mark = tuner_of(str(tmp_path / "a"))
    assert mark.startswith(f"{socket.gethostname()}:{tmp_path}/a ") and mark == tuner_of(str(tmp_path / "a"))
    assert mark != tuner_of(str(tmp_path / "b"))
    (tmp_path / "a").rename(tmp_path / "c")
    assert tuner_of(str(tmp_path / "c")) == mark


def test_trials_that_no_study_has_are_put_aside(tmp_path):
    assert put_aside_trials(str(tmp_path)) == ""
    for number in (1, 2):
        (tmp_path / "trials" / "0000").mkdir(parents=True)
        assert put_aside_trials(str(tmp_path)) == str(tmp_path / f"trials.old-{number}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trials.old-1", "trials.old-2"]


@pytest.mark.parametrize(
    ("output", "code", "cause"),
    [
        ("step 1\nps_train: error: max_steps=0 is not valid\n", 2, "max_steps=0 is not valid"),
        ("ps_train: worker:0 failed with exit code 1, and so the job failed: X (help: a#b)\n", 1, "the job failed: X"),
        ("Traceback (most recent call last):\n  File\nValueError: no\nmore\n", 1, "ValueError: no"),
        ("", 1, "its job failed with exit code 1"),
        ("step 1\n", -9, "its job was ended by SIGKILL"),
        ("step 1\n", 143, "its job was ended by SIGTERM"),
    ],
)
def test_the_cause_of_a_failure_is_in_the_output(tmp_path, output, code, cause):
    (tmp_path / "output.log").write_text(output)
    assert _cause(str(tmp_path / "output.log"), code).endswith(cause)


def test_the_steps_of_a_stopped_job_are_those_of_its_last_checkpoint(tmp_path):
    assert _last_step(str(tmp_path / "model")) == 0
    for step in (0, 9, 20):
        (tmp_path / f"model.ckpt-{step}.index").write_text("")
    assert _last_step(str(tmp_path)) == 20


def test_an_unknown_objective_is_refused_with_the_nearest_metric():
    assert "did you mean auc? use one of loss, auc" in unknown_objective("acu", {"loss": 1.0, "auc": 0.5})
