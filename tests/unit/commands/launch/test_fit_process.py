"""The program that fit runs: its output and its exit code are passed on."""

from __future__ import annotations

import io
import os
import sys

import pytest

from ps_train.commands.launch.child_process import PARENT_VARIABLE
from ps_train.commands.launch.fit_process import run_program


@pytest.fixture
def run(monkeypatch):
    """Runs the program; returns its exit code and what this process has printed."""

    def call(*arguments, quiet=False, parent=None, stream=None):
        stream = stream or io.StringIO()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        return run_program(arguments, {**os.environ, PARENT_VARIABLE: str(parent or os.getpid())}, quiet), stream

    return call


def test_the_output_of_the_program_is_printed_here(run):
    code, stream = run("--help")
    assert code == 0 and "--max_steps" in stream.getvalue()


def test_a_wrong_flag_gives_the_exit_code_of_the_program(run):
    code, stream = run("--max_steps=0")
    assert code == 2 and "max_steps=0" in stream.getvalue()


def test_quiet_prints_nothing(run):
    code, stream = run("--max_steps=0", quiet=True)
    assert code == 2 and stream.getvalue() == ""


def test_a_stream_that_nobody_reads_does_not_change_the_exit_code(run):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    assert run("--help", stream=Closed())[0] == 0


def test_a_program_whose_parent_has_ended_does_not_run(run):
    code, stream = run("--help", parent=1)
    assert code == -15 and stream.getvalue() == ""
