"""Progress lines and log records, on a terminal and in a file."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os

import pytest

from ps_train.base.console import PROGRESS_BEGINS, Console, ConsoleHandler, Progress, human_secs, step_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(**values):
    defaults = {"step": 500, "max_steps": 2000, "loss": 0.25, "steps_per_sec": 100.0, "examples_per_sec": 3200.4}
    return Progress(**{**defaults, **values}).text()


@pytest.fixture
def broken_pipe():
    """A stream that nobody reads any more."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


class TestProgressText:
    def test_it_shows_step_loss_rates_and_time_left(self):
        text = progress()
        for part in ("500/2000", "loss 0.2500", "100 global steps/s", "3200 examples/s", "ETA 0:15"):
            assert part in text

    def test_without_a_known_end_there_is_no_time_left(self):
        text = progress(max_steps=None)
        assert text == "step 500  loss 0.2500  100 global steps/s  3200 examples/s"
        assert step_of(text) == step_of(progress()) == 500

    def test_it_begins_with_what_the_launcher_looks_for(self):
        assert progress().startswith(PROGRESS_BEGINS)

    def test_it_is_one_line(self):
        assert "\n" not in progress()

    def test_a_loss_that_is_not_known_yet_is_a_dash(self):
        assert "loss -  " in progress(loss=None)

    def test_a_loss_of_zero_is_known(self):
        assert "loss 0.0000" in progress(loss=0.0)

    def test_without_a_rate_the_time_left_is_not_known(self):
        assert progress(steps_per_sec=0.0).endswith("ETA -")

    @pytest.mark.parametrize(
        ("steps_left", "shown"),
        [
            (0, "0:00"),
            (59, "0:59"),
            (60, "1:00"),
            (61, "1:01"),
            (3599, "59:59"),
            (3600, "1:00:00"),
            (90061, "25:01:01"),
        ],
    )
    def test_the_time_left_is_in_minutes_or_hours(self, steps_left, shown):
        assert progress(step=0, max_steps=steps_left, steps_per_sec=1.0).endswith(f"ETA {shown}")

    def test_seconds_are_rounded_never_up_to_60(self):
        assert progress(step=0, max_steps=599, steps_per_sec=10.0).endswith("ETA 1:00")


class TestConsole:
    def test_into_a_file_every_progress_line_stays(self):
        stream = io.StringIO()
        console = Console(stream)
        assert not console.live
        console.progress("step 1")
        console.progress("step 2")
        console.line("done")
        assert stream.getvalue() == "step 1\nstep 2\ndone\n"

    def test_on_a_terminal_a_progress_line_replaces_the_one_before(self):
        stream = Terminal()
        console = Console(stream)
        assert console.live
        console.progress("step 1")
        console.progress("step 2")
        assert stream.getvalue() == "\r\x1b[Kstep 1\r\x1b[Kstep 2"

    def test_on_a_terminal_a_line_does_not_stand_behind_the_progress_line(self):
        stream = Terminal()
        console = Console(stream)
        console.progress("step 1")
        console.line("saved")
        console.line("done")
        assert stream.getvalue().endswith("step 1\nsaved\ndone\n")

    def test_what_is_written_is_seen_at_once(self, tmp_path):
        with open(tmp_path / "log", "w") as stream:
            Console(stream).line("here")
            assert (tmp_path / "log").read_text() == "here\n"

    def test_a_broken_pipe_is_survived(self, broken_pipe):
        console = Console(broken_pipe)
        for number in range(3):
            console.line(f"line {number}")
            console.progress(f"step {number}")

    def test_a_stream_that_was_closed_is_survived(self):
        stream = io.StringIO()
        console = Console(stream)
        stream.close()
        console.line("nobody reads this")
        console.progress("step 1")

    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["terminal gone", "disk full"])
    def test_a_stream_that_takes_nothing_any_more_is_survived(self, number):
        class Gone(io.StringIO):
            def write(self, text):
                raise OSError(number, os.strerror(number))

        console = Console(Gone())
        console.line("nobody reads this")
        console.progress("step 1")

    def test_a_line_that_the_stream_cannot_encode_is_not_lost(self):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        Console(stream).line("no directory /donn\u00e9es/mnist")
        written = stream.buffer.getvalue()
        assert written.startswith(b"no directory /donn")
        assert written.endswith(b"es/mnist\n")


class TestConsoleHandler:
    @pytest.fixture
    def logged(self):
        stream = io.StringIO()
        logger = logging.Logger("test", logging.DEBUG)
        logger.addHandler(ConsoleHandler(Console(stream), "[worker:1] "))
        return logger, stream

    def test_a_record_is_a_line_with_the_prefix(self, logged):
        logger, stream = logged
        logger.info("%d variables", 3)
        assert stream.getvalue() == "[worker:1] 3 variables\n"

    @pytest.mark.parametrize(("level", "shown"), [(logging.WARNING, "warning"), (logging.ERROR, "error")])
    def test_a_warning_or_worse_says_that_it_is_one(self, logged, level, shown):
        logger, stream = logged
        logger.log(level, "look")
        assert stream.getvalue() == f"[worker:1] {shown}: look\n"


@pytest.mark.parametrize(
    ("secs", "text"),
    [(5.99999, "6s"), (120, "120s"), (0.25, "0.25s"), (90.04, "90s"), (1234567.0, "1234567s"), (0, "0s")],
)
def test_a_computed_duration_is_short(secs: float, text: str) -> None:
    assert human_secs(secs) == text
