"""Each folder of deploy/ has a README of one screen, whose links lead somewhere, and a test."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.support.machine.fork_server import ROOT

DEPLOY = ROOT / "deploy"
FOLDERS = sorted(path.name for path in DEPLOY.iterdir() if path.is_dir())
LINES_OF_A_SCREEN = 60
PAGES = ["README.md", *(f"{name}/README.md" for name in FOLDERS)]


def test_there_are_folders_and_the_first_page_names_each() -> None:
    assert {"docker", "kubernetes", "slurm", "systemd"} <= set(FOLDERS)
    text = (DEPLOY / "README.md").read_text()
    assert [name for name in FOLDERS if f"]({name})" not in text] == []


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_has_a_test(name: str) -> None:
    assert (ROOT / "tests" / "deploy" / f"test_{name}.py").exists()


@pytest.mark.parametrize("page", PAGES)
def test_a_readme_is_one_screen_of_whole_lines_with_links_that_exist(page: str) -> None:
    path = DEPLOY / page
    text = path.read_text()
    lines = text.splitlines()
    assert len(lines) <= LINES_OF_A_SCREEN and max(map(len, lines)) <= 120
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert pathlib.Path(path.parent, link).exists(), link
    assert page == "README.md" or "Not run" in text
