"""Programs taken out of notebooks, as scripts that `python` runs.

script_of(copy / "keras.ipynb", copy / "keras.py")
written_by(copy / "multi_worker_with_keras.ipynb", copy)        # the files of its cells with %%writefile
"""

from __future__ import annotations

import json
import pathlib
import re

_WRITES = re.compile(r"%%writefile\s+(\S+)\n")


def script_of(notebook: pathlib.Path, script: pathlib.Path, first: str = "", end: str = "") -> None:
    """Writes the cells of code as a script, without commands of the shell and of the notebook.

    Args:
      notebook: its file.
      script: the file to write.
      first: words of the first cell that belongs to the script; "" for the first one.
      end: words of the first cell that no longer belongs to it; "" for none.
    """
    cells = _cells(notebook)
    begin = next(i for i, cell in enumerate(cells) if first in cell)
    stop = next((i for i, cell in enumerate(cells) if end and end in cell), len(cells))
    kept = (cell for cell in cells[begin:stop] if not cell.startswith("%%"))
    lines = (re.sub(r"^(\s*)[!%].*", r"\1pass", line) for cell in kept for line in [*cell.splitlines(), ""])
    script.write_text("\n".join(lines))


def written_by(notebook: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the files that a notebook's cells write; of several with one name, the last.

    Args:
      notebook: its file.
      folder: where the files go.
    """
    for cell in _cells(notebook):
        if found := _WRITES.match(cell):
            (folder / found[1]).write_text(cell[found.end() :] + "\n")


def _cells(notebook: pathlib.Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
