"""The commands and programs of the pages run, end as the page says and print what it shows; the others exist.

A page's blocks run one after the other in one folder, which looks like a clone.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator

import pytest

from ps_train.base.errors import EXIT_CONFIG
from tests.pages.blocks import LANGUAGES, Block, blocks_of, missing_lines
from tests.pages.commands import problems_of
from tests.support.documents.public_names import names_in_source, private
from tests.support.machine.processes import ROOT, Processes

PAGES = {
    str(page.relative_to(ROOT)): blocks_of(page.read_text())
    for page in [
        *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "dev").glob("*.md")),
    ]
}
_LINKED = ("examples", "flags", "deploy", "benchmarks", "scripts", "setup.py", "constraints.txt", "pyproject.toml")
_SECS, _LONG_SECS = 120, 900


def cheap(page: str) -> list[Block]:
    return [block for block in PAGES[page] if not block.is_long]


@pytest.fixture
def clone(processes: Processes) -> pathlib.Path:
    """A folder that looks like a clone."""
    folder = processes.directory
    for name in [*_LINKED, *(path.name for path in ROOT.glob("run_*.sh"))]:
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture
def fixed_ports() -> Iterator[None]:
    """One test at a time has the ports of the pages."""
    with open(pathlib.Path(tempfile.gettempdir()) / "ps_train_pages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(blocks: list[Block], page: str, folder: pathlib.Path, processes: Processes) -> None:
    """Runs blocks in their order; fails with the page and the line of the first that does not end as it says."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    for block in blocks:
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
            continue
        if block.language not in ("bash", "python") or block.why_not_run or block.is_fragment:
            continue
        where = f"{page}:{block.line}"
        if block.language == "python":
            (folder / "block.py").write_text(block.text)
        command = (
            ["bash", "-e", "-o", "pipefail", "-c", block.text]
            if block.language == "bash"
            else [sys.executable, "block.py"]
        )
        process = processes.command(command, folder, {"PATH": path, "PYTHONPATH": str(folder)})
        code = process.wait(_LONG_SECS if block.is_long else _SECS)
        assert code == block.exit_code, f"{where} ended with {code}:\n{process.output}"
        missing = missing_lines(block.output, process.lines)
        assert not missing, f"{where} did not print\n" + "\n".join(missing) + f"\nbut\n{process.output}"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", [page for page in PAGES if any(b.language in ("bash", "python") for b in cheap(page))])
def test_the_cheap_blocks_of_a_page_run(page: str, clone: pathlib.Path, processes: Processes) -> None:
    run(cheap(page), page, clone, processes)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("page", [page for page in PAGES if len(cheap(page)) < len(PAGES[page])])
def test_all_blocks_of_a_page_run(page: str, fixed_ports: None, clone: pathlib.Path, processes: Processes) -> None:
    run(PAGES[page], page, clone, processes)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_public_name_of_a_page_exists(page: str) -> None:
    files = {block.file for block in PAGES[page] if block.file}
    found = []
    for block in PAGES[page]:
        if block.language not in LANGUAGES:
            found.append(f"{page}:{block.line} has no language, or one that is unknown: {block.language!r}")
        elif block.language == "bash" and block.exit_code != EXIT_CONFIG:  # wrong on purpose
            made = set(re.findall(r"> *([\w./-]+)|^cat.*> *([\w./-]+)", block.text))
            names = files | {name for pair in made for name in pair if name}
            found += [f"{page}:{block.line} {problem}" for problem in problems_of(block.text, names)]
        elif block.language == "python":
            found += [
                f"{page}:{block.line} {name} is not public" for name in sorted(private(names_in_source(block.text)))
            ]
    assert found == []
