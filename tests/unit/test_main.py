"""Exit codes and messages of the program."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import platform
import sys

import pytest

import ps_train
from ps_train import __main__ as program


@pytest.fixture
def broken_pipe():
    """A stream that nobody reads any more."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


class TestProgram:
    @pytest.fixture
    def exit_code(self, monkeypatch):
        """Runs the program in this process and returns the code it exits with."""

        def leave(code):
            raise SystemExit(code)

        monkeypatch.setattr(os, "_exit", leave)

        def run(arguments, stream, errors=None):
            monkeypatch.setattr(sys, "argv", ["ps_train", *arguments])
            monkeypatch.setattr(sys, "stdout", stream)
            monkeypatch.setattr(sys, "stderr", errors or stream)
            with pytest.raises(SystemExit) as caught:
                program.run()
            return caught.value.code

        return run

    def test_help_is_printed_and_the_program_is_done(self, exit_code):
        stream = io.StringIO()
        assert exit_code(["--help"], stream) == 0
        assert "--max_steps" in stream.getvalue()

    def test_help_says_where_a_local_job_writes(self, exit_code):
        stream = io.StringIO()
        assert exit_code(["--help"], stream) == 0
        assert "runs/MODEL-UPDATE-TIME" in stream.getvalue()
        assert "--version" in stream.getvalue()

    def test_the_version_is_shown_with_those_of_tensorflow_and_python(self, exit_code):
        stream = io.StringIO()
        assert exit_code(["--version"], stream) == 0
        (line,) = stream.getvalue().splitlines()
        assert line.startswith(
            f"ps_train {ps_train.__version__}, tensorflow {importlib.metadata.version('tensorflow')}"
        )
        assert line.endswith(f"Python {platform.python_version()}")

    def test_an_error_is_one_line_and_the_exit_code_of_its_kind(self, exit_code):
        stream, errors = io.StringIO(), io.StringIO()
        assert exit_code(["--max_steps=0"], stream, errors) == 2
        (line,) = errors.getvalue().splitlines()
        assert line.startswith("ps_train: error: max_steps=0")
        assert stream.getvalue() == ""

    def test_a_broken_pipe_does_not_change_the_exit_code(self, exit_code, broken_pipe):
        assert exit_code(["--max_steps=0"], broken_pipe) == 2
