"""A study whose trials run on the tasks of one cluster: TF_CONFIG, Slurm, MPI, host lists.

Each task runs the same `tune` command.  The chief's process has the study and gives turns; a turn is one execution of a
trial.  The processes of the other tasks follow: each starts its own task of the turn's job, and says how it ended.

    turns = Turns(directory, ["ps:0", "worker:1"], patience_secs=60)
    execution = TurnExecution(turns, "trials/0007/0", ["--learning_rate=0.1"], start)      # the chief's
    code = follow("worker:1", directory, start, 120, signals, console)                     # another task's

They meet in the directory of the study, which all hosts see: `cluster/turn.json` is the chief's file, and
`cluster/worker-1.json` that of a follower.  Each file has one writer, and is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, TrainingError, exit_code_of_signal, signal_name
from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text
from ps_train.commands.tuning.search import Ending, Execution

FOLDER = "cluster"
_TURN = "turn.json"
_RUN, _END, _OVER = "run", "end", "over"
_BEAT_SECS, _LOOK_SECS = 2.0, 0.1
_FAILURE_SECS = 3.0
"""Seconds in which the chief's own task may show the cause of a failure that another task saw first."""

_STOP_SECS = 15.0
_RESTARTS = 3
"""Restarts of a task that a signal from outside has ended, in one turn."""


class Task(Protocol):
    """The process of a task."""

    def poll(self) -> int | None:
        """Returns its exit code, or None while it runs."""

    def send(self, signum: int) -> None:
        """Sends a signal if it still runs."""

    def cause(self, code: int) -> str:
        """Returns the cause of a failure in one line."""


class Turns:
    """The turns that the chief gives.

    Args:
      directory: the directory of the study.
      followers: names of the other tasks.
      patience_secs: seconds that the others have to end their tasks, before the next turn begins without them.
    """

    def __init__(self, directory: str, followers: Sequence[str], patience_secs: float) -> None:
        self._folder, self._followers, self._patience = os.path.join(directory, FOLDER), followers, patience_secs
        os.makedirs(self._folder, exist_ok=True)
        found = _read(self._folder, _TURN)
        self._turn = found.get("turn", 0) if is_of("int", found.get("turn", 0)) else 0
        self._content: dict[str, Any] = {"state": _END, "done": False}
        self._beats, self._written, self._asked = 0, 0.0, time.monotonic()
        self._write()

    def begin(self, where: str, arguments: Sequence[str]) -> None:
        """Begins the next turn.

        Args:
          where: directory of the execution, relative to that of the study.
          arguments: the flags of the trial.
        """
        self._turn += 1
        self._content = {"state": _RUN, "where": where, "arguments": list(arguments)}
        self._write()

    def end(self, is_done: bool) -> None:
        """Ends the turn: the others end their tasks, by a signal if the job is not done."""
        self._content, self._asked = {"state": _END, "done": is_done}, time.monotonic()
        self._write()

    def over(self, code: int, cause: str) -> None:
        """Ends the processes of the others, with the exit code of the study."""
        self._content = {"state": _OVER, "code": code, "cause": cause}
        self._write()

    def beat(self) -> None:
        """Shows that the chief lives."""
        if time.monotonic() - self._written > _BEAT_SECS:
            self._beats += 1
            self._write()

    def have_ended(self) -> bool:
        """Returns True if the others have ended their tasks of the turn, or have had their time."""
        if not self._turn or time.monotonic() - self._asked > self._patience:
            return True
        return all(self._ended(name) is not None for name in self._followers)

    def failure(self) -> tuple[str, int, str] | None:
        """Returns name, exit code and cause of a task that has failed in this turn."""
        for name in self._followers:
            found = self._ended(name)
            if found is not None and found.get("code") != EXIT_DONE:
                code = found["code"] if is_of("int", found.get("code")) else EXIT_FAILED
                return name, int(code), str(found.get("cause", ""))
        return None

    def _ended(self, name: str) -> Mapping[str, Any] | None:
        found = _read(self._folder, _file_of(name))
        return found if found.get("turn") == self._turn and found.get("state") == _END else None

    def _write(self) -> None:
        self._written = time.monotonic()
        life = {"tuner": os.getpid(), "beats": self._beats}
        _replace(self._folder, _TURN, {"turn": self._turn, **life, **self._content})


class TurnExecution:
    """An execution on all tasks of the cluster, as the chief sees it.

    Args:
      turns: the turns.
      where: directory of the execution, relative to that of the study.
      arguments: the flags of the trial.
      start: starts the chief's own task.
    """

    def __init__(self, turns: Turns, where: str, arguments: Sequence[str], start: Callable[[], Execution]) -> None:
        self._turns, self._where, self._arguments, self._start = turns, where, arguments, start
        self._job: Execution | None = None
        self._ending: Ending | None = None
        self._failure: tuple[str, int, str] | None = None
        self._failed = 0.0
        self._is_stopped = False

    def poll(self) -> Ending | None:
        """Returns the end of the turn, when all tasks have ended theirs; None while one runs."""
        self._turns.beat()
        if self._ending is None:
            self._ending = self._look()
        return self._ending if self._ending is not None and self._turns.have_ended() else None

    def _look(self) -> Ending | None:
        if self._job is None:
            if self._is_stopped:
                return Ending(exit_code_of_signal(signal.SIGTERM), cause="it was stopped before it began")
            if self._turns.have_ended():  # of the turn before
                self._turns.begin(self._where, self._arguments)
                self._job = self._start()
            return None
        ending = self._job.poll()
        if ending is None:
            self._stop_if_another_failed()
            return None
        if self._failure is not None:
            name, code, cause = self._failure
            ending = dataclasses.replace(ending, code=code, value=None, cause=f"{name}: {cause}")
        self._turns.end(ending.code == EXIT_DONE)
        return ending

    def _stop_if_another_failed(self) -> None:
        failure = self._turns.failure() if self._failure is None and not self._is_stopped else None
        if failure is None:
            self._failed = 0.0
        elif not self._failed:
            self._failed = time.monotonic()
        elif time.monotonic() - self._failed > _FAILURE_SECS and self._job is not None:
            self._failure = failure
            self._job.stop()

    def evaluations(self) -> Sequence[tuple[int, float]]:
        """Returns (step, value of the objective) of its new evaluations."""
        return self._job.evaluations() if self._job is not None else []

    def stop(self) -> None:
        """Stops the chief's task, which saves a checkpoint, and then those of the others."""
        self._is_stopped = True
        if self._job is not None:
            self._job.stop()

    def kill(self) -> None:
        """Kills the chief's task."""
        self._is_stopped = True
        if self._job is not None:
            self._job.kill()


def follow(
    name: str, directory: str, start: Callable[[str, Sequence[str]], Task], patience_secs: float,
    signals: Sequence[int], console: Console,
) -> int:  # fmt: skip
    """Follows the turns of the chief until the study is over; returns its exit code.

    Args:
      name: name of this process's task.
      directory: the directory of the study.
      start: starts the task, given the directory of the execution and the flags of the trial.
      patience_secs: seconds without a sign of life of the chief after which it ends.
      signals: the signals that this process has got so far.
      console: receives a line for each turn.

    Raises:
      TrainingError: the chief shows no sign of life.
    """
    follower = _Follower(name, directory, start, console)
    known, changed = _read(follower.folder, _TURN), time.monotonic()
    is_news = known.get("state") != _OVER  # the end of an earlier study
    while not signals:
        found = _read(follower.folder, _TURN) or known
        if found != known:
            known, changed, is_news = found, time.monotonic(), True
        is_silent = time.monotonic() - changed > patience_secs
        if is_silent or (is_news and known.get("state") == _OVER):
            follower.stop()
            if not is_silent or known.get("state") == _OVER:
                if cause := str(known.get("cause", "")):
                    console.error(f"ps_train: the study has ended: {cause}")
                return int(known.get("code", EXIT_FAILED))
            raise TrainingError(
                f"the tuner of the chief has shown no sign of life in {directory} for {patience_secs:g} s: check that "
                "it runs, and that all tasks see this directory; the same command goes on."
            )
        if is_news:
            follower.look(known)
        time.sleep(_LOOK_SECS)
    console.line(f"got {signal_name(signals[0])}: the task that runs is stopped")
    follower.stop()
    return exit_code_of_signal(signals[0])


class _Follower:
    def __init__(
        self, name: str, directory: str, start: Callable[[str, Sequence[str]], Task], console: Console
    ) -> None:
        self.folder = os.path.join(directory, FOLDER)
        os.makedirs(self.folder, exist_ok=True)
        self._name, self._directory, self._start_task, self._console = name, directory, start, console
        self._turn, self._restarts = 0, 0
        self._task: Task | None = None
        self._deadline: float | None = None

    def look(self, found: Mapping[str, Any]) -> None:
        """Starts or ends the task as the chief's turn says."""
        turn, state = found.get("turn", 0), found.get("state")
        if self._task is not None:
            self._look_at_task(
                self._task, is_wanted=(turn, state) == (self._turn, _RUN), is_done=bool(found.get("done"))
            )
        elif turn != self._turn:
            self._turn, self._restarts = turn, 0
            if state == _RUN:
                self._console.line(f"{self._name}: {found['where']} {' '.join(found['arguments'])}")
                self._start(found)
            elif turn:
                self._say(_END, EXIT_DONE, "")

    def _start(self, found: Mapping[str, Any]) -> None:
        self._found = found
        self._say(_RUN, None, "")
        where = os.path.join(self._directory, found["where"])
        os.makedirs(where, exist_ok=True)
        self._task, self._deadline = self._start_task(where, found["arguments"]), None

    def _look_at_task(self, task: Task, is_wanted: bool, is_done: bool) -> None:
        code = task.poll()
        if code is None:
            if not is_wanted and self._deadline is None:
                self._deadline = time.monotonic() + _STOP_SECS
                if not is_done:
                    task.send(signal.SIGTERM)
            elif self._deadline is not None and time.monotonic() > self._deadline:
                task.send(signal.SIGKILL)
            return
        is_killed = code < 0 or code > exit_code_of_signal(0)
        if is_killed and is_wanted and self._restarts < _RESTARTS:
            self._restarts += 1
            self._start(self._found)
            return
        self._task = None
        is_failure = is_wanted and code != EXIT_DONE
        self._say(_END, code if is_failure else EXIT_DONE, task.cause(code) if is_failure else "")

    def stop(self) -> None:
        """Stops the task and waits for its end."""
        deadline = time.monotonic() + _STOP_SECS
        if self._task is not None:
            self._task.send(signal.SIGTERM)
            while self._task.poll() is None:
                if time.monotonic() > deadline:
                    self._task.send(signal.SIGKILL)
                time.sleep(_LOOK_SECS)

    def _say(self, state: str, code: int | None, cause: str) -> None:
        if code is not None and (code < 0 or code > exit_code_of_signal(0)):
            code = EXIT_FAILED
        _replace(self.folder, _file_of(self._name), {"turn": self._turn, "state": state, "code": code, "cause": cause})


def _file_of(name: str) -> str:
    return name.replace(":", "-") + ".json"


def _read(folder: str, name: str) -> dict[str, Any]:
    """Returns the content of a file; {} if it is not there, or a network file system shows a part."""
    with contextlib.suppress(OSError, UntrustedError):
        found = parse_json(read_text(os.path.join(folder, name)))
        return found if isinstance(found, dict) else {}
    return {}


def _replace(folder: str, name: str, content: Mapping[str, Any]) -> None:
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.replace(path + ".new", path)
