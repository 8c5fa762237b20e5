"""The evaluator always ends, with the right code, whatever it finds in model_dir; checkpoints and status by hand."""

from __future__ import annotations

import io
import json
import logging
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.base.console import Console
from ps_train.base.errors import (
    ConfigError,
    DamagedCheckpointError,
    JobFailedError,
    LostTaskError,
    ModelError,
    UnreachableError,
)
from ps_train.config.job import Job, Task
from ps_train.observe.progress.eval_events import read_eval_metrics
from ps_train.training.tasks import evaluator
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear

SECS = {"startup_timeout_secs": 60.0, "recovery_timeout_secs": 60.0}
SHORT = dict.fromkeys(SECS, 2.0)


class Weighted(Linear):
    """Its only metric is the value of its bias: it tells which checkpoint was read."""

    def metrics(self, outputs, labels):
        return {"bias": v1.metrics.mean(outputs[0] * 0 + v1.global_variables()[1])}


class ByKind(Linear):
    """Its metric is the mean of the features' numbers."""

    def data(self, split, data_dir):
        x = np.arange(30, dtype=np.float32)[:, np.newaxis] * np.ones(3, np.float32)
        return Arrays({"x": x, "kind": np.arange(30) % 3}, x[:, 0])

    def forward(self, features, training):
        return super().forward(features["x"], training)

    def metrics(self, outputs, labels):
        return {"mean": v1.metrics.mean(outputs * 0 + labels)}


class Faulty(Linear):
    """Its metric fails as long as the data are wrong."""

    def metrics(self, outputs, labels):
        return {"rows": v1.metrics.mean(tf.gather(outputs, [10**6]))}


class Directory:
    """A model_dir that the test fills in the chief's place, and an evaluator of it."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.output = io.StringIO()

    def save(
        self, step: int, width: int = 3, names: tuple[str, str] = ("w", "b"), dtype: type[Any] = np.float32
    ) -> None:
        self.path.mkdir(exist_ok=True)
        with tf.Graph().as_default(), v1.Session() as session:
            variables = [
                v1.get_variable(names[0], initializer=np.zeros([width, 1], dtype)),
                v1.get_variable(names[1], initializer=np.float32(step)),
            ]
            session.run(v1.global_variables_initializer())
            path = v1.train.Saver(variables).save(session, str(self.path / "model.ckpt"), step, write_meta_graph=False)
        # A chief's list has all checkpoints; that of a new saver has only its own.
        kept = sorted(str(index.with_suffix("")) for index in self.path.glob("model.ckpt-*.index"))
        v1.train.update_checkpoint_state(str(self.path), path, [*(one for one in kept if one != path), path])

    def damage(self, step: int) -> None:
        for data in self.path.glob(f"model.ckpt-{step}.data-*"):
            data.write_bytes(data.read_bytes()[:3])

    def say(self, state: str, **fields: Any) -> None:
        self.path.mkdir(exist_ok=True)
        new = self.path / "status.json.new"
        new.write_text(json.dumps({"state": state, "holder": "a chief", "max_steps": 100, **fields}))
        new.rename(self.path / "status.json")

    def evaluate(self, model: str = "Weighted", **fields: Any) -> int:
        job = Job(model=f"{__name__}:{model}", model_dir=str(self.path), max_steps=100, **{**SECS, **fields})
        return evaluator.run(job, Task("evaluator", 0), Console(self.output))

    def scored(self) -> list[int]:
        lines = [line for line in self.output.getvalue().splitlines() if not line.startswith("exported ")]
        return [int(line.split()[3].rstrip(":")) for line in lines]

    def exported(self) -> list[str]:
        lines = self.output.getvalue().splitlines()
        return [line.removeprefix("exported ") for line in lines if line.startswith("exported ")]


@pytest.fixture
def model_dir(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    monkeypatch.setattr(evaluator, "_LOOK_SECS", 0.05)
    return Directory(tmp_path / "model")


@pytest.fixture
def meanwhile() -> Any:
    """Runs something in a thread while the evaluator runs; its errors are the test's."""
    errors: list[BaseException] = []
    threads: list[threading.Thread] = []

    def start(act: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                act()
            except BaseException as error:
                errors.append(error)

        threads.append(threading.Thread(target=guarded, daemon=True))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join(20)
    assert not errors


def test_the_checkpoint_of_max_steps_ends_it(model_dir: Directory) -> None:
    model_dir.save(100)
    assert model_dir.evaluate() == 0
    assert "evaluation at step 100: bias 100.0000" in model_dir.output.getvalue()


def test_metrics_of_slices_are_in_its_events_and_not_on_the_console(model_dir: Directory) -> None:
    model_dir.save(100)
    assert model_dir.evaluate("ByKind", eval_by="kind") == 0
    assert model_dir.output.getvalue() == "evaluation at step 100: mean 14.5000\n"
    (found,) = read_eval_metrics(str(model_dir.path / "eval")).values()
    of_slices = {f"mean/kind={kind}": 13.5 + kind for kind in range(3)}
    assert found == {"mean": 14.5, **of_slices, **{f"examples/kind={kind}": 10.0 for kind in range(3)}}


@pytest.mark.parametrize(("model", "field", "text"), [("ByKind", "kin", "use one of kind"), ("Linear", "a", "metrics")])
def test_a_field_that_is_not_there_ends_it_at_once(model_dir: Directory, model: str, field: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^eval_by={field}.*{text}"):
        model_dir.evaluate(model, eval_by=field)


@pytest.mark.parametrize(("signum", "code"), [(15, 143), (2, 130)])
def test_a_run_that_is_stopped_has_its_last_checkpoint_scored_once_and_the_code_of_the_signal(
    model_dir: Directory, meanwhile: Any, signum: int, code: int
) -> None:
    model_dir.save(40)
    model_dir.say("running")

    def stop() -> None:
        eventually(model_dir.scored, 20, "an evaluation")
        model_dir.save(60)
        model_dir.say("stopped", signum=signum)

    meanwhile(stop)
    assert model_dir.evaluate() == code
    assert model_dir.scored() == [40, 60]


def test_a_run_that_was_stopped_before_and_is_not_resumed_ends_with_its_code(model_dir: Directory) -> None:
    model_dir.save(40)
    model_dir.say("stopped", signum=15)
    start = time.monotonic()
    assert model_dir.evaluate(**SHORT) == 143
    assert 2 < time.monotonic() - start < 10
    assert model_dir.scored() == [40]


def test_an_evaluator_that_was_started_before_the_run_is_resumed_scores_its_last_checkpoint(
    model_dir: Directory, meanwhile: Any
) -> None:
    model_dir.save(40)
    model_dir.say("stopped", signum=15)

    def resume() -> None:
        eventually(model_dir.scored, 20, "an evaluation")
        model_dir.say("running")
        model_dir.save(90)
        model_dir.say("done")

    meanwhile(resume)
    assert model_dir.evaluate() == 0
    assert model_dir.scored()[-1] == 90


def test_an_evaluator_may_be_started_before_the_directory_is_there(model_dir: Directory, meanwhile: Any) -> None:
    def train() -> None:
        time.sleep(0.3)
        model_dir.say("running")
        model_dir.save(30)
        model_dir.say("done")

    meanwhile(train)
    assert model_dir.evaluate() == 0
    assert model_dir.scored() == [30]


def test_a_run_that_failed_is_named_with_its_cause(model_dir: Directory, meanwhile: Any) -> None:
    model_dir.save(40)
    model_dir.say("running")

    def fail() -> None:
        eventually(model_dir.scored, 20, "an evaluation")
        model_dir.say("failed", cause="lost ps:1")

    meanwhile(fail)
    with pytest.raises(JobFailedError, match="lost ps:1") as caught:
        model_dir.evaluate(recovery_timeout_secs=2.0)
    assert caught.value.exit_code == 1


def test_a_run_that_no_restart_helps_ends_it_with_code_2(model_dir: Directory, meanwhile: Any) -> None:
    model_dir.say("running")

    def fail() -> None:
        time.sleep(0.5)
        model_dir.say("failed", cause="no such file", config=True)

    meanwhile(fail)
    with pytest.raises(JobFailedError, match="no such file") as caught:
        model_dir.evaluate()
    assert caught.value.exit_code == 2


def test_a_run_that_ended_without_a_word_is_given_up_and_its_last_checkpoint_is_scored(
    model_dir: Directory, meanwhile: Any
) -> None:
    model_dir.say("running")

    def die() -> None:
        time.sleep(0.3)
        model_dir.say("running", holder="the next chief")
        model_dir.save(50)

    meanwhile(die)
    start = time.monotonic()
    with pytest.raises(LostTaskError, match=r"no sign of life .* for 2s \(recovery_timeout_secs\)"):
        model_dir.evaluate(recovery_timeout_secs=2.0)
    assert time.monotonic() - start < 15
    assert model_dir.scored() == [50]


def test_a_directory_in_which_nothing_happens_is_given_up(model_dir: Directory) -> None:
    with pytest.raises(UnreachableError, match=r"startup_timeout_secs"):
        model_dir.evaluate(**SHORT)
    model_dir.save(50)
    with pytest.raises(UnreachableError, match=r"startup_timeout_secs"):
        model_dir.evaluate(**SHORT)
    assert model_dir.scored() == [50]


@pytest.mark.parametrize("saved", [{"names": ("other/w", "b")}, {"width": 4}, {"dtype": np.float64}])
def test_a_checkpoint_of_another_model_is_refused_in_one_line(model_dir: Directory, saved: dict[str, Any]) -> None:
    model_dir.save(40, **saved)
    model_dir.say("running")
    with pytest.raises(ModelError, match=r"model.ckpt-40 .* another model") as caught:
        model_dir.evaluate()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_instead_of_a_damaged_checkpoint_the_one_before_is_scored_and_a_done_run_is_no_success(
    model_dir: Directory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("ps_train"), "propagate", True)
    model_dir.save(40)
    model_dir.save(100)
    model_dir.damage(100)
    model_dir.say("done")
    with pytest.raises(DamagedCheckpointError, match=r"model.ckpt-100"):
        model_dir.evaluate()
    assert model_dir.scored() == [40]
    assert len([line for line in caplog.messages if "model.ckpt-100 is damaged" in line]) == 1


def test_a_checkpoint_that_can_be_read_after_a_moment_is_scored(model_dir: Directory, meanwhile: Any) -> None:
    model_dir.save(100)
    (data,) = model_dir.path.glob("model.ckpt-100.data-*")
    data.rename(model_dir.path / "later")

    def appear() -> None:
        time.sleep(0.1)
        (model_dir.path / "later").rename(data)

    meanwhile(appear)
    assert model_dir.evaluate() == 0
    assert model_dir.scored() == [100]


def test_an_error_of_the_users_metrics_is_raised_and_not_tried_again(model_dir: Directory) -> None:
    model_dir.save(40)
    model_dir.say("running")
    with pytest.raises(tf.errors.InvalidArgumentError):
        model_dir.evaluate("Faulty")


def test_a_step_that_a_resumed_run_saves_again_is_scored_again(model_dir: Directory, meanwhile: Any) -> None:
    model_dir.save(40)
    model_dir.say("running")

    def again() -> None:
        eventually(model_dir.scored, 20, "an evaluation")
        model_dir.save(40)
        eventually(lambda: len(model_dir.scored()) == 2, 20, "another evaluation")
        model_dir.say("stopped", signum=15)

    meanwhile(again)
    assert model_dir.evaluate() == 143
    assert model_dir.scored() == [40, 40]


def test_a_checkpoint_to_which_a_recovery_goes_back_is_not_scored_again(model_dir: Directory, meanwhile: Any) -> None:
    model_dir.save(40)
    model_dir.say("running")

    def go_back() -> None:
        eventually(lambda: model_dir.scored() == [40], 20, "an evaluation")
        model_dir.save(50)
        eventually(lambda: model_dir.scored() == [40, 50], 20, "another evaluation")
        for path in model_dir.path.glob("model.ckpt-50.*"):
            path.unlink()
        time.sleep(1)  # the evaluator looks twenty times
        model_dir.save(60)
        eventually(lambda: len(model_dir.scored()) == 3, 20, "the evaluation of a new one")
        model_dir.say("stopped", signum=15)

    meanwhile(go_back)
    assert model_dir.evaluate() == 143
    assert model_dir.scored() == [40, 50, 60]


def test_a_model_dir_that_is_a_file_is_a_configuration_error(model_dir: Directory) -> None:
    model_dir.path.write_text("")
    with pytest.raises(ConfigError, match=r"model_dir=.*is not a directory"):
        model_dir.evaluate()


def test_between_evaluations_is_the_time_of_the_flag_but_the_last_one_is_not_delayed(
    model_dir: Directory, meanwhile: Any
) -> None:
    model_dir.save(10)
    model_dir.say("running")
    start = time.monotonic()

    def go_on() -> None:
        eventually(model_dir.scored, 20, "an evaluation")
        model_dir.say("running", cause="a sign of life")
        for step in (20, 30):
            model_dir.save(step)
        model_dir.say("done")

    meanwhile(go_on)
    assert model_dir.evaluate(eval_every_secs=1000.0) == 0
    assert model_dir.scored() == [10, 30] and time.monotonic() - start < 100


def test_without_the_flag_each_checkpoint_is_scored(model_dir: Directory, meanwhile: Any) -> None:
    model_dir.save(10)
    model_dir.say("running")

    def go_on() -> None:
        for step in (20, 100):
            eventually(lambda step=step: model_dir.scored()[-1:] == [step - 10 if step == 20 else 20], 20, "a score")
            model_dir.save(step)

    meanwhile(go_on)
    assert model_dir.evaluate() == 0
    assert model_dir.scored() == [10, 20, 100]


@pytest.mark.usual(2)
@pytest.mark.parametrize(("export", "expected"), [("latest", [40, 100]), ("best", [40, 100]), ("best:-bias", [40])])
def test_evaluated_models_are_exported(
    model_dir: Directory, meanwhile: Any, tmp_path: pathlib.Path, export: str, expected: list[int]
) -> None:
    model_dir.save(40)
    model_dir.say("running")

    def go_on() -> None:
        eventually(lambda: model_dir.exported() or model_dir.scored()[1:], 40, "an export")
        model_dir.save(100)

    meanwhile(go_on)
    assert model_dir.evaluate(export=export, export_dir=str(tmp_path / "exports")) == 0
    assert model_dir.scored() == [40, 100]
    assert model_dir.exported() == [str(tmp_path / "exports" / str(number)) for number in range(1, len(expected) + 1)]
    biases = []
    for path in model_dir.exported():
        serve = tf.saved_model.load(path).signatures["serving_default"]
        (outputs,) = serve(features=tf.zeros([1, 3])).values()
        biases.append(float(outputs[0]))
    assert biases == expected
