"""A wrong call of fit is refused in one line, before any process starts."""

from __future__ import annotations

import json
import os

import pytest

import ps_train
from ps_train.base.errors import ConfigError, DataError, JobFailedError, ModelError, TrainingError
from ps_train.commands.launch import fit as fitting
from ps_train.config.error_report import REPORT_VARIABLE, report_error
from tests.support.models.small import Linear

PATH = "tests.support.models.small:Linear"


@pytest.fixture(autouse=True)
def no_process(monkeypatch, tmp_path):
    """Fails a test that starts a process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(fitting, "run_program", lambda *_: pytest.fail("a process was started"))


class Plain(ps_train.Model):
    def __init__(self, width, depth: int = 1):
        self.width, self.depth = width, depth


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"max_step": 3}, ["'max_step'", "max_steps", "--helpfull"]),
        ({"zebra": 3}, ["'zebra'", "--helpfull"]),
        ({"max_steps": 0}, ["max_steps=0", "fit()", "at least 1"]),
        ({"max_steps": "many"}, ["max_steps", "many", "fit()"]),
        ({"max_steps": 1.5}, ["max_steps", "1.5", "fit()"]),
        ({"max_steps": True}, ["max_steps=True", "a number"]),
        ({"max_steps": [1]}, ["max_steps=[1]", "a number"]),
        ({"verbose": 1}, ["verbose=1", "True or False"]),
        ({"update": "quick"}, ["update=quick", "async, bounded, sync"]),
        ({"update": 1.0}, ["update=1.0", "a text"]),
        ({"ps_hosts": 3}, ["ps_hosts=3", "a list of texts"]),
        ({"ps_hosts": [3]}, ["ps_hosts=[3]", "a list of texts"]),
        ({"job_name": "boss"}, ["job_name=boss", "ps, worker"]),
        ({"model_arg": ["width=3"]}, ["model_arg=['width=3']", "a dict"]),
        ({"model_arg": {3: 4}}, ["model_arg={3: 4}", "a dict"]),
        ({"model_arg": {"width": 3}}, ["width=3", "the text '3'", "width: int", "an instance"]),
        ({"model_arg": {"depth": [3]}}, ["depth=[3]", "an instance"]),
        ({"model_arg": {"depth": "deep"}}, ["depth=deep", "use int"]),
        ({"save_steps": 0, "save_secs": 0}, ["save_steps=0", "save_secs=0"]),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_refused_with_its_value(given, shown):
    with pytest.raises((ConfigError, ModelError)) as caught:
        ps_train.fit(Plain, **given)
    message = str(caught.value)
    assert "\n" not in message and "the command line" not in message
    assert [text for text in shown if text not in message] == [], message
    assert os.listdir() == []


def test_a_call_in_a_process_that_fit_started_is_refused_with_the_guard(monkeypatch):
    monkeypatch.setenv(REPORT_VARIABLE, "/nowhere")
    with pytest.raises(ConfigError, match='if __name__ == "__main__":'):
        ps_train.fit(Linear)


def test_a_contradiction_to_the_environment_is_refused(monkeypatch):
    cluster = {"ps": ["localhost:1"], "worker": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}}))
    with pytest.raises(ConfigError, match=r"--job_name=worker \(from fit\(\)\) contradicts job_name=ps"):
        ps_train.fit(Linear, job_name="worker")


class TestCall:
    """The arguments and the environment that the program gets."""

    @pytest.fixture
    def program(self, monkeypatch, tmp_path):
        """Runs a function instead of the program: it gets the flags and writes the result."""
        calls = []

        def run(arguments, environ, quiet, bar):
            calls.append((arguments, environ, quiet))
            directory = next(a.partition("=")[2] for a in arguments if a.startswith("--model_dir="))
            os.makedirs(directory, exist_ok=True)
            result = {"global_step": 7, "loss": 0.5, "metrics": {"accuracy": 1.0}, "wall_secs": 2.0}
            with open(os.path.join(directory, "result.json"), "w") as file:
                json.dump(result, file)
            return 0

        monkeypatch.setattr(fitting, "run_program", run)
        return calls

    def test_flags_reach_the_program_and_the_result_is_a_frozen_value(self, program, tmp_path):
        result = ps_train.fit(
            Linear, max_steps=7, learning_rate=1e-3, verbose=False, model_arg={"width": 4}, ps_hosts=["a:1", "b:2"],
            worker_hosts=("c:3",), model_dir=tmp_path / "m", optimizer=None, quiet=True,
        )  # fmt: skip
        (arguments, environ, quiet) = program[0]
        expected = {
            "--max_steps=7", "--learning_rate=0.001", "--verbose=False", "--model_arg=width=4", "--ps_hosts=a:1,b:2",
            "--worker_hosts=c:3", f"--model_dir={tmp_path}/m", f"--model={PATH}",
        }  # fmt: skip
        assert set(arguments) == expected and quiet is True
        assert environ[REPORT_VARIABLE]
        assert (result.global_step, result.loss, result.metrics) == (7, 0.5, {"accuracy": 1.0})
        assert (result.task, result.model_dir, result.export_dir) == ("local", f"{tmp_path}/m", "")
        assert result.checkpoint == f"{tmp_path}/m/model.ckpt-7" and result.values["wall_secs"] == 2.0
        with pytest.raises(AttributeError):
            result.loss = 0.0

    def test_arguments_of_optimizers_are_dicts_or_texts(self, program):
        for given in ({"momentum": 0.8, "learning_rate": 0.5}, ["momentum=0.8", "learning_rate=0.5"]):
            ps_train.fit(Linear, update="sync", local_steps=4, outer_optimizer="nesterov", outer_optimizer_arg=given,
                         optimizer="adam", optimizer_arg={"epsilon": 1e-6}, model_dir="m")  # fmt: skip
            found = {"--outer_optimizer_arg=momentum=0.8", "--outer_optimizer_arg=learning_rate=0.5"}
            assert found | {"--optimizer_arg=epsilon=1e-06"} <= set(program[-1][0])
        with pytest.raises(ConfigError, match=r"outer_optimizer_arg=0.8 .*use a dict"):
            ps_train.fit(Linear, local_steps=4, outer_optimizer_arg=0.8)

    def test_a_path_is_passed_on_and_a_directory_is_made(self, program):
        assert ps_train.fit(PATH).model_dir == os.path.abspath(f"runs/{os.listdir('runs')[0]}")
        assert f"--model={PATH}" in program[0][0]

    def test_nothing_is_left_of_a_sent_model(self, program):
        ps_train.fit(Linear(), model_dir="m")
        (arguments, environ, _) = program[0]
        assert "--model=ps_train_fit_model:Linear" in arguments
        assert not os.path.exists(environ["PYTHONPATH"].partition(os.pathsep)[0])

    def test_the_newest_version_of_an_export_is_told(self, program, tmp_path):
        for version in ("9", "10", "temporary"):
            (tmp_path / "export" / version).mkdir(parents=True)
        assert ps_train.fit(Linear, export_dir="export").export_dir == f"{tmp_path}/export/10"


@pytest.mark.parametrize(
    ("code", "reported", "kind", "text"),
    [
        (2, [ModelError("the model is wrong")], ModelError, "the model is wrong"),
        (2, [DataError("the data are wrong"), JobFailedError("a: the data")], DataError, "the data are wrong"),
        (1, [JobFailedError("worker:1: a"), TrainingError("a")], TrainingError, "a"),
        (1, [JobFailedError("only this")], JobFailedError, "only this"),
        (1, [ZeroDivisionError("by zero")], TrainingError, "ZeroDivisionError: by zero"),
        (2, [SyntaxError("invalid")], ConfigError, "SyntaxError: invalid"),
        (1, [], JobFailedError, "exit code 1"),
        (143, [], JobFailedError, "SIGTERM"),
        (-9, [], JobFailedError, "SIGKILL"),
    ],
)  # fmt: skip
def test_the_first_cause_is_raised_as_what_it_was(monkeypatch, code, reported, kind, text):
    def run(arguments, environ, quiet, bar):
        monkeypatch.setenv(REPORT_VARIABLE, environ[REPORT_VARIABLE])
        for error in reported:
            report_error(error)
        monkeypatch.delenv(REPORT_VARIABLE)
        return code

    monkeypatch.setattr(fitting, "run_program", run)
    with pytest.raises(kind) as caught:
        ps_train.fit(Linear, model_dir="m")
    assert type(caught.value) is kind and text in str(caught.value)
