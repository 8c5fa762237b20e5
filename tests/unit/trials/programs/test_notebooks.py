"""Scripts taken out of notebooks."""

from __future__ import annotations

import json

from tests.trials.programs import notebooks


def notebook(path, *cells):
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Training"]}, *code]}))
    return path


def test_a_script_has_the_cells_of_code_alone(tmp_path):
    source = notebook(
        tmp_path / "a.ipynb",
        "!pip install packages\na = 1",
        "%%bash\nls",
        "if a:\n  %load_ext tensorboard\nb = a + 1",
    )
    notebooks.script_of(source, tmp_path / "a.py")
    names: dict[str, int] = {}
    exec((tmp_path / "a.py").read_text(), names)
    assert (names["a"], names["b"]) == (1, 2)


def test_a_part_of_a_notebook_is_a_script(tmp_path):
    source = notebook(tmp_path / "a.ipynb", "a = 1", "b = 2", "c = 3", "d = 4")
    notebooks.script_of(source, tmp_path / "a.py", first="b =", end="d =")
    assert (tmp_path / "a.py").read_text().split() == ["b", "=", "2", "c", "=", "3"]


def test_cells_write_their_files(tmp_path):
    source = notebook(tmp_path / "a.ipynb", "%%writefile main.py\n\nprint(1)", "x = 1", "%%writefile main.py\nprint(2)")
    notebooks.written_by(source, tmp_path)
    assert (tmp_path / "main.py").read_text() == "print(2)\n"
