"""Exports get the next number when they are complete, also beside others that do so at the same time."""

from __future__ import annotations

import pathlib

import pytest

from ps_train.saved.export.numbered import next_number, write_numbered


def wrote(text: str):
    def write(path: str) -> None:
        pathlib.Path(path).mkdir()
        pathlib.Path(path, "saved_model.pb").write_text(text)

    return write


@pytest.mark.parametrize(
    ("names", "least", "number"), [([], 1, 1), (["2", "10", "x", "²"], 1, 11), (["7"], 100, 100), (["100"], 100, 101)]
)
def test_the_next_number_is_after_the_largest(names, least, number):
    assert next_number(names, least) == number


def test_an_export_appears_whole_in_place_of_what_a_killed_process_has_left(tmp_path):
    unfinished = tmp_path / "1.new"
    unfinished.mkdir()
    (unfinished / "variables").touch()
    path = write_numbered(str(unfinished), wrote("mine"), lambda: str(tmp_path / "1"))
    assert path == str(tmp_path / "1") and [one.name for one in tmp_path.iterdir()] == ["1"]
    assert [one.name for one in (tmp_path / "1").iterdir()] == ["saved_model.pb"]


def test_where_another_process_was_faster_the_next_number_is_taken(tmp_path):
    wrote("theirs")(str(tmp_path / "1"))
    numbers = iter("12")
    path = write_numbered(str(tmp_path / "x.new"), wrote("mine"), lambda: str(tmp_path / next(numbers)))
    assert path == str(tmp_path / "2")
    assert (tmp_path / "1" / "saved_model.pb").read_text() == "theirs"


@pytest.mark.parametrize("fails", ["write", "rename"])
def test_a_failed_export_leaves_nothing(tmp_path, fails):
    def write(path: str) -> None:
        wrote("mine")(path)
        if fails == "write":
            raise ValueError("no signature")

    with pytest.raises(Exception, match=r"no signature|No such file"):
        write_numbered(str(tmp_path / "x.new"), write, lambda: str(tmp_path / "nowhere" / "1"))
    assert not list(tmp_path.iterdir())
