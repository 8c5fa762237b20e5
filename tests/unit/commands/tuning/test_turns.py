"""The turns of a cluster's tasks: a chief and followers in threads, whose tasks are scripts instead of processes."""

from __future__ import annotations

import io
import threading
import time

import pytest

from ps_train.base.console import Console
from ps_train.base.errors import TrainingError
from ps_train.commands.tuning import turns as turns_module
from ps_train.commands.tuning.search import Ending
from ps_train.commands.tuning.turns import TurnExecution, Turns, follow

FAST = {"_BEAT_SECS": 0.05, "_LOOK_SECS": 0.01, "_FAILURE_SECS": 0.1, "_STOP_SECS": 0.2}


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    for name, value in FAST.items():
        monkeypatch.setattr(turns_module, name, value)


class ScriptedTask:
    """A task that ends with a code, or by a signal."""

    def __init__(self, code=None):
        self.code, self.got = code, []

    def poll(self):
        return self.code

    def send(self, signum):
        self.got.append(signum)
        self.code = -signum

    def cause(self, code):
        return f"it ended with {code}"


class ScriptedJob:
    """The chief's own task."""

    def __init__(self):
        self.ending = None

    def poll(self):
        return self.ending

    def evaluations(self):
        return []

    def stop(self):
        self.ending = Ending(143, steps=7, cause="stopped")

    kill = stop


class Follower:
    """A follower in a thread."""

    def __init__(self, directory, tasks=(), patience=5.0, name="worker:1"):
        self.signals, self.starts, self.result, self.output = [], [], None, io.StringIO()
        self._tasks = [*tasks]
        self._thread = threading.Thread(target=self._run, args=(name, str(directory), patience), daemon=True)
        self._thread.start()

    def _run(self, name, directory, patience):
        try:
            console = Console(self.output, self.output)
            self.result = follow(name, directory, self._start, patience, self.signals, console)
        except TrainingError as error:
            self.result = error

    def _start(self, where, arguments):
        self.starts.append((where, list(arguments)))
        return self._tasks.pop(0)

    def wait(self):
        self._thread.join(5)
        assert not self._thread.is_alive()
        return self.result


def until(condition, execution=None):
    deadline = time.monotonic() + 5
    while not (found := condition()):
        assert time.monotonic() < deadline
        if execution is not None:
            execution.poll()
        time.sleep(0.01)
    return found


def ended(execution):
    return until(execution.poll)


def test_all_tasks_of_a_cluster_make_the_turns_of_its_chief(tmp_path):
    tasks = [ScriptedTask(), ScriptedTask(0)]
    follower = Follower(tmp_path, tasks)
    turns = Turns(str(tmp_path), ["worker:1"], 5.0)
    jobs = [ScriptedJob(), ScriptedJob()]
    first = TurnExecution(turns, "trials/0000/0", ["--batch_size=8"], lambda: jobs[0])
    until(lambda: follower.starts, first)
    jobs[0].ending = Ending(0, 0.5, 20)
    assert first.poll() is None  # the task of the follower still runs
    tasks[0].code = 0
    assert ended(first) == Ending(0, 0.5, 20) and tasks[0].got == []
    second = TurnExecution(turns, "trials/0000/1", ["--batch_size=9"], lambda: jobs[1])
    until(lambda: len(follower.starts) == 2, second)
    jobs[1].ending = Ending(0, 0.7, 20)
    assert ended(second).value == 0.7
    assert follower.starts[1] == (str(tmp_path / "trials/0000/1"), ["--batch_size=9"])
    turns.over(0, "")
    assert follower.wait() == 0


@pytest.mark.parametrize("code", [1, 2])
def test_a_task_that_fails_ends_the_execution_with_its_cause(tmp_path, code):
    follower = Follower(tmp_path, [ScriptedTask(code)])
    turns, job = Turns(str(tmp_path), ["worker:1"], 5.0), ScriptedJob()
    execution = TurnExecution(turns, "trials/0000/0", [], lambda: job)
    assert ended(execution) == Ending(code, None, 7, f"worker:1: it ended with {code}")
    turns.over(2, "no such flag")
    assert follower.wait() == 2 and "no such flag" in follower.output.getvalue()


def test_a_task_that_is_killed_starts_again(tmp_path):
    follower = Follower(tmp_path, [ScriptedTask(-9), ScriptedTask(137), ScriptedTask(0)])
    turns, job = Turns(str(tmp_path), ["worker:1"], 5.0), ScriptedJob()
    execution = TurnExecution(turns, "trials/0000/0", ["--a=1"], lambda: job)
    until(lambda: len(follower.starts) == 3, execution)
    job.ending = Ending(0, 0.5, 20)
    assert ended(execution).code == 0 and follower.starts[0] == follower.starts[2]


def test_a_stopped_execution_stops_the_tasks_of_the_others(tmp_path):
    task = ScriptedTask()
    follower = Follower(tmp_path, [task])
    turns, job = Turns(str(tmp_path), ["worker:1"], 5.0), ScriptedJob()
    execution = TurnExecution(turns, "trials/0000/0", [], lambda: job)
    until(lambda: follower.starts, execution)
    execution.stop()
    assert ended(execution).code == 143 and task.got == [15]
    never = TurnExecution(turns, "trials/0000/1", [], lambda: pytest.fail("it began"))
    never.stop()
    assert ended(never).code == 143


def test_the_next_chief_ends_the_turn_of_one_that_died_and_a_new_follower_makes_its_turn(tmp_path):
    Turns(str(tmp_path), ["worker:1"], 5.0).begin("trials/0000/0", [])
    task = ScriptedTask()
    follower = Follower(tmp_path, [task])
    until(lambda: follower.starts)
    again = Turns(str(tmp_path), ["worker:1"], 5.0)
    until(again.have_ended)
    assert task.got == [15]
    job = ScriptedJob()
    execution = TurnExecution(again, "trials/0000/0", [], lambda: job)
    follower._tasks.append(ScriptedTask())
    until(lambda: len(follower.starts) == 2, execution)
    follower.signals.append(15)
    assert follower.wait() == 143
    later = Follower(tmp_path, [ScriptedTask(0)])
    until(lambda: later.starts, execution)
    job.ending = Ending(0, 0.5, 20)
    assert ended(execution).value == 0.5


def test_a_follower_waits_for_a_chief_and_not_for_ever(tmp_path):
    assert "no sign of life" in str(Follower(tmp_path, patience=0.2).wait())
    turns = Turns(str(tmp_path), ["worker:1"], 0.2)
    turns.over(0, "")
    waits = Follower(tmp_path, patience=0.5)  # that was the end of an earlier study
    time.sleep(0.2)
    assert waits.result is None
    assert waits.wait() == 0  # or of this one, before the follower came
    turns.begin("trials/0000/0", [])
    turns.end(is_done=True)
    assert not turns.have_ended()
    until(turns.have_ended)  # it has had its time


def test_a_damaged_file_is_no_turn(tmp_path):
    for text in ("", "{", "[1]", '{"turn": "x"}'):
        (tmp_path / "cluster").mkdir(exist_ok=True)
        (tmp_path / "cluster" / "turn.json").write_text(text)
        turns = Turns(str(tmp_path), ["worker:1"], 5.0)
        (tmp_path / "cluster" / "worker-1.json").write_text(text)
        turns.begin("trials/0000/0", [])
        assert turns.failure() is None
