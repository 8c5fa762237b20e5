"""The status that a run leaves in model_dir for the evaluator: the file, and the time-outs."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import threading

import pytest

from ps_train.base import untrusted
from ps_train.base.errors import JobFailedError, LostTaskError, UnreachableError
from ps_train.cluster.membership import run_status
from ps_train.cluster.membership.run_status import (
    RunEnd,
    RunMonitor,
    RunState,
    Status,
    StatusFile,
    StatusReading,
    read_status,
)
from ps_train.config.job import Job
from tests.support.machine.processes import eventually

JOB = Job(max_steps=100, model_dir="/m", startup_timeout_secs=50.0, recovery_timeout_secs=20.0)


def read(state: str, touched: int = 0, **fields) -> StatusReading:
    return StatusReading(Status(state, "chief", **{"max_steps": 100, **fields}), touched)


class Watching:
    """A watch, and its clock."""

    def __init__(self, job: Job = JOB, may_start_late: bool = False) -> None:
        self.now = 1000.0
        self.watch = RunMonitor(job, self.now, may_start_late)

    def sees(self, found: StatusReading | None, after: float = 0.0):
        self.now += after
        return self.watch.update(found, self.now)


@pytest.fixture
def watching() -> Watching:
    return Watching()


class TestWatch:
    def test_a_run_that_gives_signs_of_life_is_waited_for(self, watching):
        assert all(watching.sees(read(RunState.RUNNING, beat), after=19) is None for beat in range(100))

    @pytest.mark.parametrize("state", [RunState.DONE, RunState.STOPPED])
    def test_the_end_of_a_run_that_was_seen_alive_is_final_at_once(self, watching, state):
        assert watching.sees(read(RunState.RUNNING)) is None
        ended = read(state, 1, signum=15)
        assert watching.sees(ended, after=1) == RunEnd(ended.status)

    def test_a_run_that_fell_silent_is_lost_after_recovery_secs(self, watching):
        watching.sees(None)
        watching.sees(read(RunState.RUNNING, 1), after=1)
        assert watching.sees(read(RunState.RUNNING, 1), after=19) is None
        with pytest.raises(LostTaskError, match=r"/m for 20s \(recovery_timeout_secs\)"):
            watching.sees(read(RunState.RUNNING, 1), after=2).exit_code()

    @pytest.mark.parametrize("found", [None, read(RunState.RUNNING)])
    def test_a_run_that_never_gave_a_sign_of_life_is_given_up_after_startup_timeout_secs(self, watching, found):
        assert watching.sees(found) is None
        assert watching.sees(found, after=49) is None
        with pytest.raises(UnreachableError, match=r"/m within 50s \(startup_timeout_secs\)"):
            watching.sees(found, after=2).exit_code()

    @pytest.mark.parametrize("found", [None, read(RunState.RUNNING)])
    def test_a_run_that_may_start_late_is_waited_for(self, found):
        watching = Watching(may_start_late=True)
        assert watching.sees(found) is None
        assert watching.sees(found, after=1e6) is None
        watching.sees(read(RunState.RUNNING, 1), after=1)
        assert watching.sees(read(RunState.RUNNING, 1), after=21).silence is not None

    def test_a_failure_that_a_restart_may_help_is_final_after_recovery_secs(self, watching):
        watching.sees(read(RunState.RUNNING))
        failed = read(RunState.FAILED, 1, cause="lost ps:0")
        assert watching.sees(failed, after=1) is None
        assert watching.sees(failed, after=19) is None
        assert watching.sees(failed, after=2) == RunEnd(failed.status)

    def test_a_failure_that_no_restart_helps_is_final_at_once(self, watching):
        watching.sees(read(RunState.RUNNING))
        failed = read(RunState.FAILED, 1, config=True)
        assert watching.sees(failed, after=1) == RunEnd(failed.status)

    def test_a_chief_that_was_started_again_after_its_failure_is_waited_for(self, watching):
        watching.sees(read(RunState.RUNNING))
        watching.sees(read(RunState.FAILED, 1), after=1)
        assert watching.sees(read(RunState.RUNNING, 2), after=15) is None
        assert watching.sees(read(RunState.RUNNING, 3), after=15) is None

    @pytest.mark.parametrize("state", [RunState.STOPPED, RunState.FAILED])
    def test_an_end_from_before_is_waited_out_because_the_run_may_be_resumed(self, watching, state):
        before = read(state)
        assert watching.sees(before) is None
        assert watching.sees(before, after=49) is None
        assert watching.sees(before, after=2) == RunEnd(before.status)

    @pytest.mark.parametrize("state", [RunState.STOPPED, RunState.FAILED])
    def test_a_run_that_is_resumed_is_waited_for_like_any_other(self, watching, state):
        watching.sees(read(state))
        assert watching.sees(read(RunState.RUNNING, 1), after=40) is None
        assert watching.sees(read(RunState.RUNNING, 2), after=15) is None
        done = read(RunState.DONE, 3)
        assert watching.sees(done, after=1) == RunEnd(done.status)

    def test_a_run_that_was_done_before_is_not_waited_for(self, watching):
        done = read(RunState.DONE)
        assert watching.sees(done) == RunEnd(done.status)

    def test_a_run_that_was_done_at_fewer_steps_may_go_on(self, watching):
        done = read(RunState.DONE, max_steps=50)
        assert watching.sees(done) is None
        assert watching.sees(done, after=51) == RunEnd(done.status)


class TestRunEnd:
    @pytest.mark.parametrize(
        "status, code", [(Status(RunState.DONE), 0), (Status(RunState.STOPPED, signum=15), 143), (Status("other"), 0)]
    )
    def test_the_exit_code_is_that_of_the_run(self, status, code):
        assert RunEnd(status).exit_code() == code
        assert RunEnd(status).is_done == (code == 0)

    @pytest.mark.parametrize("config, code", [(True, 2), (False, 1)])
    def test_a_failure_is_the_error_of_the_job(self, config, code):
        end = RunEnd(Status(RunState.FAILED, cause="the job failed: lost ps:0", config=config))
        assert not end.is_done
        with pytest.raises(JobFailedError, match=r"^the job failed: lost ps:0$") as caught:
            end.exit_code()
        assert caught.value.exit_code == code


class TestFile:
    def test_it_is_touched_while_the_process_lives_and_says_how_it_ended(self, tmp_path, monkeypatch):
        monkeypatch.setattr(run_status, "HEARTBEAT_SECS", 0.01)
        directory = str(tmp_path)
        assert read_status(directory) is None
        file = StatusFile(directory, "me", 100)
        file.begin()
        first = read_status(directory)
        assert first.status == Status(RunState.RUNNING, "me", 100)
        eventually(lambda: read_status(directory).touched > first.touched, 5, "a heartbeat")
        (tmp_path / "status.json").unlink()
        eventually(lambda: read_status(directory), 5, "a new file")
        file.end(RunState.STOPPED, signum=15)
        assert read_status(directory).status == Status(RunState.STOPPED, "me", 100, signum=15)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["status.json"]

    def test_a_chief_that_was_replaced_says_nothing(self, tmp_path):
        old, new = StatusFile(str(tmp_path), "old", 100), StatusFile(str(tmp_path), "new", 100)
        old.begin()
        new.begin()
        old.end(RunState.FAILED, cause="lost")
        assert read_status(str(tmp_path)).status == Status(RunState.RUNNING, "new", 100)
        new.end(RunState.DONE)
        assert read_status(str(tmp_path)).status.state == RunState.DONE

    def test_a_directory_that_is_gone_costs_nothing(self, tmp_path):
        file = StatusFile(str(tmp_path / "gone"), "me", 100)
        file.begin()
        file.end(RunState.DONE)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "done", "more": 1}', '"done"'])
    def test_a_file_that_says_nothing_is_no_status(self, tmp_path: pathlib.Path, text):
        (tmp_path / "status.json").write_text(text)
        assert read_status(str(tmp_path)) is None

    def test_a_file_that_is_replaced_while_it_is_read_is_not_read_with_the_time_of_the_new_one(
        self, tmp_path, monkeypatch
    ):
        StatusFile(str(tmp_path), "old", 100).end(RunState.STOPPED)
        old = read_status(str(tmp_path))
        read = untrusted._read_all

        def read_as_another_begins(*args):
            text = read(*args)
            if threading.current_thread() is not threading.main_thread():
                return text  # of another test, which reads another file
            status = json.loads(text)
            new = tmp_path / "new"
            new.write_text(json.dumps({**status, "state": "running", "holder": "new"}))
            os.utime(new, ns=(old.touched + 10**9, old.touched + 10**9))
            new.replace(tmp_path / "status.json")
            return text

        monkeypatch.setattr(untrusted, "_read_all", read_as_another_begins)
        assert read_status(str(tmp_path)) == old
        monkeypatch.setattr(untrusted, "_read_all", read)
        new = read_status(str(tmp_path))
        assert (new.status.holder, new.touched) == ("new", old.touched + 10**9)

    def test_every_field_survives(self, tmp_path):
        file = StatusFile(str(tmp_path), "me", 7)
        file.end(RunState.FAILED, signum=3, cause='a "cause"', config=True)
        wanted = Status(RunState.FAILED, "me", 7, 3, 'a "cause"', True)
        assert read_status(str(tmp_path)).status == wanted
        assert all(value for value in dataclasses.asdict(wanted).values())
