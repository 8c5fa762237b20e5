"""The tests of a module are found by its path: tests/unit/ROOM/test_FILE.py or tests/cluster/ROOM/test_FILE.py."""

from __future__ import annotations

import pathlib

import pytest

import ps_train

PACKAGE = pathlib.Path(ps_train.__file__).parent
TESTS = pathlib.Path(__file__).parents[1]
ELSEWHERE = {
    "benchmarks": TESTS.parent / "benchmarks",
    **{folder: TESTS / folder for folder in ("support", "mutation", "programs")},
}
"""Folders of tests of what is not in ps_train."""

OF_THE_REPOSITORY = {"constraints", "documents", "examples", "imports", "layout", "public_surface", "reference", "soak"}


def names_in(folder):
    """Names of the modules and packages of a folder; `main` for `__main__`."""
    found = [path.stem.strip("_") for path in folder.glob("*.py") if path.stem != "__init__"]
    return {*found, *(path.name for path in folder.iterdir() if (path / "__init__.py").exists())}


def problem_of(path):
    """Returns the reason why a file of tests/unit or tests/cluster has no module by its path, or ""."""
    tier, *folders = path.parts[:-1]
    if not folders and tier == "cluster":
        return ""  # whole behaviours
    room = ELSEWHERE.get(folders[0], PACKAGE / folders[0]) if folders else PACKAGE
    room = room.joinpath(*folders[1:])
    if not room.is_dir():
        return f"there is no room {room}"
    names = names_in(room) | (set() if folders else OF_THE_REPOSITORY)
    stem = path.stem.removeprefix("test_")
    if any(stem == name or stem.startswith(f"{name}_") for name in names):
        return ""
    return f"no module of {room} gives {path.name} its name"


FILES = sorted(
    path.relative_to(TESTS)
    for tier in ("unit", "cluster")
    for path in (TESTS / tier).rglob("*.py")
    if path.name != "conftest.py"
)


def test_a_test_file_has_the_name_of_a_module_of_its_room():
    assert [str(path) for path in FILES if not path.name.startswith("test_")] == []
    assert [f"{path}: {problem_of(path)}" for path in FILES if problem_of(path)] == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("unit/heart/test_beat.py", "there is no room"),
        ("unit/data/csv/test_reader.py", "there is no room"),
        ("unit/engine/updates/test_turnstile.py", "no module"),
        ("unit/test_turnstile.py", "no module"),
        ("cluster/engine/updates/test_bound.py", "no module"),
        ("unit/engine/updates/test_boundedness.py", "no module"),
        ("unit/benchmarks/test_updates.py", "no module"),
    ],
)
def test_a_file_without_a_module_is_found(path, problem):
    assert problem in problem_of(pathlib.Path(path))
