"""`python -m ps_train tune` and `ps_train.tune`: whole jobs, a failure, and a tuner that is killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import statistics
import sys
import textwrap
import time

import pytest

from tests.support.machine.ports import free_ports
from tests.support.machine.proc import is_alive
from tests.support.machine.processes import Process, Processes, eventually

pytest.importorskip("optuna")
pytest.importorskip("plotly")

NET = """
import numpy as np, tensorflow as tf
import tensorflow.compat.v1 as v1
import ps_train

class Net(ps_train.Model):
    def __init__(self, kind: str = "good", secs: float = 0.0):
        self.kind, self.secs = kind, secs

    def data(self, split, data_dir):
        x = np.random.default_rng(7).normal(size=(64, 3)).astype(np.float32)
        return ps_train.Arrays(x, x @ np.arange(1, 4, dtype=np.float32))

    def forward(self, features, training):
        return tf.squeeze(features @ v1.get_variable("w", [3, 1]), 1)

    def loss(self, outputs, labels):
        loss = tf.reduce_mean(tf.square(outputs - labels))
        if self.secs:
            with tf.control_dependencies([tf.py_function(lambda: __import__("time").sleep(self.secs), [], [])]):
                loss = tf.identity(loss)
        return loss * (np.nan if self.kind == "bad" else 1.0)

    def metrics(self, outputs, labels):
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}

def space(trial):
    if trial.suggest_categorical("optimizer", ["sgd", "momentum"]) == "momentum":
        trial.suggest_float("optimizer_arg.momentum", 0.1, 0.9)
"""
JOB = ("--model=net:Net", "--optimizer=sgd", "--max_steps=20", "--num_workers=1", "--learning_rate=0.05")
STUDY = ("tune", *JOB, "--objective=mse", "--study_dir=s")


def model(processes: Processes) -> None:
    (processes.directory / "net.py").write_text(NET)


def summary(processes: Processes) -> dict:
    return json.loads((processes.directory / "s" / "study.json").read_text())


def pids_of(path) -> list[int]:
    try:
        return [record["pid"] for record in json.loads(path.read_text())]
    except (OSError, ValueError):
        return []


@pytest.mark.timeout(480)
@pytest.mark.long
def test_a_killed_study_goes_on_and_repeats_no_trial(processes: Processes) -> None:
    model(processes)
    command = (*STUDY, "--space=model_arg.kind:good,bad,fine", "--sampler=grid", "--trials=3", "--executions=2")
    folder = processes.directory / "s" / "trials"
    killed = processes.run(*command)
    killed.wait_for("trial 1/3", 120)
    (first,) = [path.name for path in folder.iterdir() if list(path.glob("*/model/result.json"))] or ["0000"]
    (pid,) = eventually(lambda: [pid for path in folder.glob("*/*/processes.json") for pid in pids_of(path)])
    killed.send(signal.SIGKILL)
    written = {path: path.stat().st_mtime_ns for path in (folder / first).glob("*/model/result.json")}

    again = processes.run(*command)
    assert again.wait(200) == 0, again.output
    assert not is_alive(pid) and not processes.orphans()
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert "trial 3/3" in again.output and "1 failed" in again.output
    found = summary(processes)
    trials = {trial["params"]["model_arg.kind"]: trial for trial in found["trials"]}
    assert sorted(trials) == ["bad", "fine", "good"] and len(found["trials"]) == 3
    assert trials["bad"]["state"] == "failed" and "not a finite number" in trials["bad"]["cause"]
    for trial in (trials["good"], trials["fine"]):
        results = [
            json.loads((folder / f"{trial['number']:04}" / str(n) / "model/result.json").read_text()) for n in (0, 1)
        ]
        values = [result["metrics"]["mse"] for result in results]
        assert trial["value"] == pytest.approx(statistics.fmean(values)) and values[0] != values[1]  # by their seeds
        assert trial["spread"] == pytest.approx(statistics.stdev(values)) and trial["steps"] == 40
    assert found["command"] in again.output and "--seed=1" in found["command"]

    page = (processes.directory / "s" / "study.html").read_text()
    assert page.count("Plotly.newPlot") == 3
    assert f'href="trials/{trials["good"]["number"]:04}/0/model/report.html"' in page
    with sqlite3.connect(processes.directory / "s" / "study.db") as storage:  # as a dashboard reads it
        states = storage.execute("select state from trials order by number").fetchall()
    assert sorted(state for (state,) in states) == ["COMPLETE", "COMPLETE", "FAIL"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--space=learning_rat:0..1",), "there is no flag 'learning_rat'"),
        (("--space=batch_size:8,16", "--sampler=tpee"), "did you mean tpe?"),
        (("--space=batch_size:8,16", "--pruner=median"), "add --save_steps=N"),
        (("--space=batch_size:8,16", "--trails=3"), "did you mean --trials"),
        (("--space=learning_rate:0.1..1",), "learning_rate is in the space and has a fixed value too"),
        (("--space=batch_size:0,16",), "batch_size=0 (from --space) is not valid"),
        (("--space=model_arg.hiden:8,16",), "model_arg hiden"),
        (("--space=batch_size:8,16", "--model_dir=m"), "--model_dir has no place in tune"),
        (("--space=batch_size:8,16", "--job_name=evaluator"), "but tune starts whole jobs: leave the task out"),
        (("--space=batch_size:8..16", "--sampler=grid", "--study_dir=/proc/x"), "cannot be written to"),
    ],
)
@pytest.mark.usual(2)
def test_a_mistake_costs_one_line(processes: Processes, flags, expected) -> None:
    model(processes)
    run = processes.run(*STUDY, *flags)
    assert run.wait(60) == 2, run.output
    assert len(run.lines) == 1 and expected in run.output
    assert not (processes.directory / "s").exists()


@pytest.mark.long
def test_an_objective_that_the_model_does_not_have_ends_the_study(processes: Processes) -> None:
    model(processes)
    run = processes.run(*STUDY, "--objective=mes", "--space=batch_size:8,16")
    assert run.wait(100) == 2, run.output
    assert "trial 0: --objective=mes is not a metric of the model: did you mean mse?" in run.lines[-1]
    again = processes.run(*STUDY, "--space=batch_size:8,16", "--trials=1")  # the mistake leaves nothing
    assert again.wait(100) == 0, again.output


@pytest.mark.long
@pytest.mark.parametrize("moment", range(6))
def test_a_tuner_may_be_killed_at_any_moment(processes: Processes, moment: int) -> None:
    model(processes)
    command = (*STUDY, "--space=batch_size:8,16", "--sampler=grid", "--executions=2", "--parallel_trials=2")
    killed = processes.run(*command)
    time.sleep(0.7 * moment + 0.3)
    killed.send(signal.SIGKILL)
    again = processes.run(*command)
    assert again.wait(200) == 0, again.output
    assert not processes.orphans()
    assert [trial["state"] for trial in summary(processes)["trials"]] == ["complete"] * 2


@pytest.mark.long
def test_a_trial_that_is_killed_goes_on(processes: Processes) -> None:
    model(processes)
    run = processes.run(*STUDY, "--space=model_arg.secs:0.2,0.3", "--trials=1")
    path = processes.directory / "s/trials/0000/0/processes.json"
    (pid,) = eventually(lambda: pids_of(path), 60)
    os.kill(pid, signal.SIGKILL)
    assert run.wait(100) == 0, run.output
    assert [trial["state"] for trial in summary(processes)["trials"]] == ["complete"] and not processes.orphans()


@pytest.mark.long
def test_a_signal_stops_the_study_and_a_second_tuner_is_refused(processes: Processes) -> None:
    model(processes)
    command = (*STUDY, "--space=model_arg.secs:0.2,0.3", "--trials=1")
    run = processes.run(*command)
    eventually(lambda: list((processes.directory / "s/trials/0000/0/model").glob("model.ckpt-0.index")), 60)
    other = processes.run(*command)
    assert other.wait(60) == 2 and f"is in use by another tune (process {run.pid})" in other.output
    run.send(signal.SIGINT)
    assert run.wait(60) == 130 and run.lines[-1] == "to resume: the same command" and not processes.orphans()
    again = processes.run(*command)
    assert again.wait(100) == 0, again.output
    assert "1 go on" in again.output and summary(processes)["trials"][0]["steps"] == 20


@pytest.mark.long
def test_the_evaluations_of_a_job_let_the_pruner_stop_it(processes: Processes) -> None:
    model(processes)
    run = processes.run(
        *(flag for flag in STUDY if "learning_rate" not in flag), "--space=learning_rate:0.1,1e-9", "--trials=10",
        "--sampler=random", "--pruner=median", "--save_steps=5", "--model_arg=secs=0.3",
    )  # fmt: skip
    assert run.wait(230) == 0, run.output
    trials = summary(processes)["trials"]
    pruned = [trial for trial in trials if trial["state"] == "pruned"]
    assert pruned and all(trial["params"]["learning_rate"] == 1e-9 and trial["steps"] < 20 for trial in pruned)
    assert not processes.orphans()


@pytest.mark.long
def test_a_function_of_the_models_module_chooses_under_conditions(processes: Processes) -> None:
    model(processes)
    run = processes.run(*(flag for flag in STUDY if "optimizer" not in flag), "--space=space", "--trials=4")
    assert run.wait(200) == 0, run.output
    for trial in summary(processes)["trials"]:
        assert ("optimizer_arg.momentum" in trial["params"]) == (trial["params"]["optimizer"] == "momentum")


@pytest.mark.long
def test_a_script_tunes_its_own_class(processes: Processes) -> None:
    path = processes.directory / "script.py"
    path.write_text(
        NET
        + textwrap.dedent("""
        if __name__ == "__main__":
            result = ps_train.tune(
                Net, space, objective="mse", trials=2, learning_rate=0.05, max_steps=20, num_workers=1, study_dir="s",
            )
            print("RESULT", result.best.value, result.best.params, len(result.trials), result.command)
    """)
    )
    run = processes.script(path)
    assert run.wait(200) == 0, run.output
    (line,) = [line for line in run.lines if line.startswith("RESULT")]
    assert "'optimizer'" in line and "} 2 python -m ps_train" in line and run.descendants() == []


@pytest.mark.long
@pytest.mark.timeout(480)
def test_tuners_share_a_study_through_its_storage_and_one_that_is_killed_goes_on(processes: Processes) -> None:
    model(processes)
    flags = [flag for flag in STUDY if "study_dir" not in flag]
    command = (*flags, "--space=model_arg.secs:0.02,0.021,0.022,0.023", "--sampler=grid", "--trials=4")
    command += ("--executions=2", "--save_steps=5", "--study=shared", "--storage=shared.log")
    runs = {name: processes.run(*command, f"--study_dir={name}") for name in ("a", "b")}
    for name in runs:
        eventually(lambda name=name: list((processes.directory / name / "trials").glob("*/0/model/*.index")), 150)
    runs["b"].send(signal.SIGKILL)
    runs["b"] = processes.run(*command, "--study_dir=b")
    for name, run in runs.items():
        assert run.wait(300) == 0, (name, run.output)
    assert "1 go on" in runs["b"].output
    jobs = [sorted(path.name for path in (processes.directory / name / "trials").iterdir()) for name in "ab"]
    assert sorted([*jobs[0], *jobs[1]]) == [f"{number:04}" for number in range(4)] and all(jobs)
    found = [json.loads((processes.directory / name / "study.json").read_text()) for name in "ab"]
    trials = max((one["trials"] for one in found), key=len)  # of the one that ended last
    assert [trial["state"] for trial in trials] == ["complete"] * 4
    assert len({trial["params"]["model_arg.secs"] for trial in trials}) == 4
    assert not processes.orphans()


SSH = """#!/bin/sh
echo "$*" >> "$COMMANDS"
shift
exec sh -c "$*"
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_trials_on_hosts_are_evaluated_and_tracked(processes: Processes) -> None:
    model(processes)
    (processes.directory / "ssh").write_text(SSH)
    (processes.directory / "ssh").chmod(0o755)
    (processes.directory / "job.flags").write_text("--max_steps=20\n")
    commands = processes.directory / "commands"
    run = processes.run(
        "tune", "--model=net:Net", "--optimizer=sgd", "--learning_rate=0.05", "--flagfile=job.flags",
        "--objective=mse", "--study_dir=s", "--space=batch_size:8,16", "--trials=2", "--pruner=median",
        "--save_steps=10", "--track=tensorboard-hparams", "--hosts=a=127.0.0.1:ps,b=127.0.0.1:worker",
        f"--port={free_ports(1)[0]}", f"--ssh={processes.directory}/ssh", env={"COMMANDS": str(commands)},
    )  # fmt: skip
    assert run.wait(200) == 0, run.output
    assert [trial["state"] for trial in summary(processes)["trials"]] == ["complete"] * 2
    log = (processes.directory / "s/trials/0000/0/evaluator.log").read_text()
    assert "evaluation at step 20" in log, log
    sent = commands.read_text()
    assert "PS_TRAIN_TRACK_PARENT=s" in sent
    assert '"max_steps": "job.flags:1"' in sent and '"batch_size": "trial 1 of study s"' in sent
    assert not processes.orphans()


STUDY_WITHOUT_JOBS = """
import sys
from ps_train.commands.tuning.search import Ending, Search
from ps_train.commands.tuning.space import parse_space
from ps_train.commands.tuning.study import MINIMIZE, Settings, Study

class Execution:
    def __init__(self, trial, execution):
        self.value, self.looks = float(trial.flags[0].rpartition("=")[2]) + execution, 0

    def evaluations(self):
        self.looks += 1
        return [(self.looks * 20, self.value)] if self.looks < 5 else []

    def poll(self):
        return Ending(0, self.value, 100) if self.looks >= 5 else None

    def stop(self):
        self.looks = 99

url, sampler, pruner = sys.argv[1:]
settings = Settings("s", url, MINIMIZE, sampler, pruner, 1, 2, 100, 20 if pruner != "none" else 0, {})
study = Study(settings, parse_space(["learning_rate:0..1:0.1", "model_arg.n:1..3"]))
search = Search(study, Execution, 6)
print("BEGUN", flush=True)
while search.advance():
    pass
print([(trial.state, trial.value, trial.steps, trial.flags) for trial in study.finished()])
"""


@pytest.mark.long
@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("url", "sampler", "pruner", "kills"),
    [
        ("sqlite:///{}.db", "grid", "none", 6),
        ("sqlite:///{}.db", "random", "median", 6),
        ("{}.log", "random", "none", 2),  # Optuna waits 30 s for a lock of one that was killed
    ],
)
def test_a_tuner_may_die_at_any_write_to_its_storage(
    processes: Processes, url: str, sampler: str, pruner: str, kills: int
) -> None:
    (processes.directory / "study.py").write_text(STUDY_WITHOUT_JOBS)

    def start(name: str) -> Process:
        return processes.command([sys.executable, "study.py", url.format(name), sampler, pruner])

    whole = start("whole")
    whole.wait_for("BEGUN", 120)
    began = time.monotonic()
    assert whole.wait(120) == 0, whole.output
    secs = time.monotonic() - began
    for part in range(1, kills + 1):
        killed = start("killed")
        killed.wait_for("BEGUN", 120)
        time.sleep(secs * part / 20)
        killed.send(signal.SIGKILL)
        killed.wait(10)
    again = start("killed")
    assert again.wait(120) == 0, again.output
    assert again.lines[-1] == whole.lines[-1]
