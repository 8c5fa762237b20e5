"""The file with the error of a task."""

from __future__ import annotations

import json
import pathlib
import time

from ps_train.config.error_report import ErrorFile, ReportedError, read_errors


def test_it_has_the_task_the_cause_and_the_time(tmp_path: pathlib.Path) -> None:
    file = ErrorFile(str(tmp_path), "worker:1")
    before = time.time()
    file.write("it is so", "Traceback ...\n", 2)
    value = json.loads((tmp_path / "worker_1.error.json").read_text())
    assert before <= value.pop("time") <= time.time()
    assert value == {"task": "worker:1", "cause": "it is so", "traceback": "Traceback ...\n", "exit_code": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["worker_1.error.json"]  # the temporary file is gone


def test_the_first_error_stays_until_it_is_removed(tmp_path: pathlib.Path) -> None:
    file = ErrorFile(str(tmp_path), "ps:0")
    file.write("first", "", 1)
    file.write("second", "", 1)
    assert json.loads(pathlib.Path(file.path).read_text())["cause"] == "first"
    file.remove()
    file.remove()
    assert not list(tmp_path.iterdir())


def test_without_a_directory_nothing_is_written(tmp_path: pathlib.Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ErrorFile("", "ps:0").write("cause", "", 1)
    ErrorFile("", "ps:0").remove()
    assert not list(tmp_path.iterdir())


def test_a_directory_is_made_and_where_it_cannot_be_the_error_is_only_printed(tmp_path: pathlib.Path) -> None:
    file = ErrorFile(str(tmp_path / "a" / "b"), "ps:0")
    file.write("cause", "", 1)
    assert pathlib.Path(file.path).exists()
    (tmp_path / "file").write_text("")
    ErrorFile(str(tmp_path / "file"), "ps:0").write("cause", "", 1)


def test_lines_that_are_no_errors_are_left_out(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "errors"
    path.write_text('["ValueError", "first"]\n["KeyError"]\n[1, 2]\n{\n["KeyError", "last"]\n')
    assert read_errors(str(path)) == [ReportedError("ValueError", "first"), ReportedError("KeyError", "last")]
    path.write_bytes(b"\xff")
    assert read_errors(str(path)) == [] == read_errors(str(tmp_path / "none"))
