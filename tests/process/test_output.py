"""What a run writes, and where: results to standard output, errors to standard error, each mistake with its line."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from tests.support.long import long
from tests.support.machine.processes import ROOT, Process, Processes, TestCluster

SMALL = ["--num_workers=1", "--max_steps=40", "--model=tests.support.models.small:Linear", "--batch_size=4"]


def run_apart(processes: Processes, *arguments: str, stdout: str = "") -> tuple[Process, pathlib.Path]:
    """A run, with its standard output (or what `stdout` makes of it) read, and its standard error in a file."""
    errors = processes.directory / "errors"
    program = [sys.executable, "-m", "ps_train", f"--model_dir={processes.directory}/m", *arguments]
    return processes.command(["bash", "-c", f'"$@" 2>"{errors}" {stdout}', "bash", *program]), errors


def test_results_and_progress_go_to_standard_output_and_nothing_else_is_written(processes: Processes) -> None:
    run, errors = run_apart(processes, *SMALL)
    assert run.wait(200) == 0, run.output
    for part in ("ps:0  16 B", "step 40/40  loss ", "trained 40 steps", "checkpoint "):
        assert part in run.output
    assert errors.read_text() == ""


@pytest.mark.long
def test_errors_go_to_standard_error(processes: Processes) -> None:
    run, errors = run_apart(processes, "--model=tests.support.models.small:FailsLater", "--update=sync")
    assert run.wait(60) == 1
    assert "error" not in run.output and "assertion" not in run.output
    told = errors.read_text().splitlines()
    (line,) = [line for line in told if "my own assertion" in line]
    assert line is told[-1] and line.startswith("ps_train: worker:")
    assert "InvalidArgumentError: assertion failed: [my own assertion] (" in line
    assert "tests/support/models/small.py, line " in line and ", in loss: with tf.control_dependencies" in line, line
    assert ', op "Assert' in line
    assert "/site-packages/" not in errors.read_text()


@pytest.fixture
def model(processes: Processes) -> str:
    """The path of a model of the user's, which raises in the method that --model_arg=raises names."""
    source = """
        import tensorflow as tf
        from tests.support.models.small import Linear
        def deeper(name, raises):
            if name == raises:
                raise KeyError(f"mine in {name}")
        class Net(Linear):
            def __init__(self, raises: str):
                super().__init__()
                self.raises = raises
            def data(self, split, data_dir):
                deeper("data", self.raises)
                return super().data(split, data_dir)
            def forward(self, features, training):
                deeper("forward", self.raises)
                return super().forward(features, training)
            def loss(self, outputs, labels):
                deeper("loss", self.raises)
                return super().loss(outputs, labels)
            def metrics(self, outputs, labels):
                deeper("metrics", self.raises)
                return {}
    """
    (processes.directory / "net.py").write_text(textwrap.dedent(source).lstrip())
    return "--model=net:Net"


LINES = {"data": 11, "forward": 14, "loss": 17, "metrics": 20}


@pytest.mark.parametrize("method", [long("data"), "forward", long("loss"), long("metrics")])
def test_an_exception_in_the_users_code_shows_the_users_frames_only(
    processes: Processes, model: str, method: str
) -> None:
    run = processes.run(model, f"--model_arg=raises={method}", f"--model_dir={processes.directory}/m", *SMALL[:2])
    assert run.wait(60) == 2
    assert f'net.py", line {LINES[method]}, in {method}' in run.output and 'net.py", line 5, in deeper' in run.output
    for library in ("site-packages", "/ps_train/", "Traceback"):
        assert library not in run.output.replace(str(processes.directory), "")
    place = 'net.py, line 5, in deeper: raise KeyError(f"mine in {name}")'
    cause = f"{method}() raised KeyError: 'mine in {method}' ({place})"
    assert run.output.count(cause) == 1
    assert run.lines[-1].endswith(f"and so the job failed: {cause} (help: models#debug-a-model)")


def test_verbose_shows_all_frames(processes: Processes, model: str) -> None:
    arguments = [model, "--model_arg=raises=forward", f"--model_dir={processes.directory}/m", *SMALL[:2]]
    run = processes.run(*arguments, "--verbose")
    assert run.wait(60) == 2
    assert "Traceback (most recent call last)" in run.output and "ps_train/engine/variables/trace.py" in run.output
    assert "line 5, in deeper" in run.output


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import os\ndef data(:\n", "SyntaxError: invalid syntax (broken.py, line 2: def data(:)"),
        (
            "import ps_train\nimport no_such_library\nclass Net(ps_train.Model): pass\n",
            "(broken.py, line 2, in <module>: import no_such_library)",
        ),
    ],
)
def test_a_model_file_that_cannot_be_imported_is_one_line_and_exit_code_2(
    processes: Processes, source: str, cause: str
) -> None:
    (processes.directory / "broken.py").write_text(source)
    cluster = TestCluster(processes, 1, 1, "--model=broken:Net")
    worker = cluster.start("worker", 0)
    assert worker.wait(60) == 2
    (line,) = worker.lines
    assert line.startswith("ps_train: error: model=broken:Net cannot be imported: ") and cause in line


@pytest.mark.long
@pytest.mark.parametrize("stdout", [long(">&-"), long("0<&- >&-"), long("| head -n 1"), ">/dev/full"])
def test_a_standard_output_that_is_closed_or_full_does_not_end_a_run(processes: Processes, stdout: str) -> None:
    run, errors = run_apart(processes, *SMALL, stdout=stdout)
    assert run.wait(60) == 0
    assert errors.read_text() == ""
    assert (processes.directory / "m" / "result.json").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["--max_steps=0"]])
def test_a_standard_output_that_is_closed_leaves_no_traceback(arguments: list[str]) -> None:
    command = ["bash", "-c", f"{sys.executable} -m ps_train {arguments[0]} >&-"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == (0 if arguments == ["--help"] else 2)
    assert done.stderr.count("\n") == (0 if arguments == ["--help"] else 1), done.stderr


def test_a_worker_in_its_own_terminal_says_joined_training_and_done(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, *SMALL[1:], f"--export_dir={processes.directory}/e")
    (ps,), (chief, worker) = cluster.start_all()
    assert [process.wait(60) for process in (chief, worker, ps)] == [0, 0, 0], chief.output
    # The chief may have made any number of steps before the worker begins.
    lines = [re.sub(r"(global step) \d+", r"\1 N", line) for line in worker.lines]
    assert lines == [
        "worker:1 joined the job of the chief, worker:0",
        "worker:1 training from global step N",
        "worker:1 done: the job has ended",
    ]
    assert chief.lines[-5:] == [
        f"checkpoint {cluster.model_dir}/model.ckpt-40",
        f"exported {processes.directory}/e/1",
        f"to resume: the same command with --model_dir={cluster.model_dir} and --max_steps above 40",
        f"to look:   tensorboard --logdir={cluster.model_dir}",
        f"to serve:  tensorflow_model_server --model_base_path={processes.directory}/e",
    ]
