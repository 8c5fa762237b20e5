"""A script in this process: arguments, path, exit code."""

from __future__ import annotations

import sys

import pytest

from ps_train.compat.scripts.script_process import run_script


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def run(directory, text, *arguments):
    path = directory / "script.py"
    path.write_text(text)
    return run_script(str(path), list(arguments), compat=False)


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("exit()", 0), ("exit(3)", 3), ("exit('no data')", 1), ("1 / 0", 1), ("exit(True)", 1)]
)
def test_the_exit_code_is_the_scripts(tmp_path, capsys, end, code):
    assert run(tmp_path, f"from sys import exit\n{end}\n") == code
    shown = capsys.readouterr().err
    assert ("no data" in shown) == ("no data" in end)
    assert ("ZeroDivisionError" in shown) == (end == "1 / 0")


def test_the_script_is_main_with_its_arguments_and_its_directory(tmp_path):
    (tmp_path / "beside_the_script.py").write_text("NAME = 'beside'\n")
    text = "import sys, beside_the_script\nassert __name__ == '__main__' and sys.modules['__main__'].sys is sys\n"
    text += "assert sys.argv == [__file__, '--a=1', 'b'] and beside_the_script.NAME == 'beside'\n"
    assert run(tmp_path, text, "--a=1", "b") == 0


@pytest.mark.parametrize("is_relative", [True, False])
def test_an_error_of_ps_train_is_one_line_with_the_programs_line(tmp_path, monkeypatch, capsys, is_relative):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("from ps_train.base.errors import ModelError\n\nraise ModelError('no layer')\n")
    assert run_script("s.py" if is_relative else str(tmp_path / "s.py"), [], compat=False) == 2
    assert capsys.readouterr().err.startswith("ps_train: error: s.py:3: no layer (help: models#mistakes)")
