"""The map of names of a warm start: what a line means, and which lines are wrong."""

from __future__ import annotations

import pathlib

import pytest

from ps_train.base.errors import ConfigError
from ps_train.saved.warm_start.name_map import NameMap, read_map

TEXT = """
# new = old
deep/kernel = dnn/kernel    # one variable
tower/ = net/
tower/head/ = top/
tower/head/bias =
fresh/ =
words = words old_vocab=old.txt new_vocab=/n/new.txt
"""


def map_of(directory: pathlib.Path, text: str) -> NameMap:
    (directory / "names.map").write_text(text)
    return read_map(str(directory / "names.map"))


def test_the_longest_scope_counts_and_a_name_of_its_own_counts_more(tmp_path: pathlib.Path) -> None:
    names = map_of(tmp_path, TEXT)
    found = {name: names.old_name(name) for name in (
        "deep/kernel", "deep/bias", "tower/w", "tower/head/w", "tower/head/bias", "fresh/a/b", "towers/w", "words"
    )}  # fmt: skip
    assert found == {
        "deep/kernel": "dnn/kernel", "deep/bias": "deep/bias", "tower/w": "net/w", "tower/head/w": "top/w",
        "tower/head/bias": "", "fresh/a/b": "", "towers/w": "towers/w", "words": "words",
    }  # fmt: skip
    assert names.line_of("tower/w") is None and names.line_of("tower/head/bias") is not None


def test_files_of_ids_are_beside_the_map_and_a_line_knows_its_place(tmp_path: pathlib.Path) -> None:
    line = map_of(tmp_path, TEXT).lines["words"]
    assert (line.old_vocab, line.new_vocab) == (str(tmp_path / "old.txt"), "/n/new.txt")
    assert line.place == f"{tmp_path / 'names.map'}:8"


def test_no_file_changes_no_name() -> None:
    assert read_map("").lines == {} and read_map("").old_name("a/b") == "a/b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "names.map:1: a is not valid: use NAME = NAME_IN_THE_CHECKPOINT"),
        ("\n= b", "names.map:2: = b is not valid: use NAME"),
        ("a c = b", "use NAME = "),
        ("a = b c", "use NAME = "),
        ("a = b=c", "use NAME = "),
        ("a = b vocab=c", "use NAME = "),
        ("a/ = b", "a scope ends with a slash on both sides"),
        ("a = b/", "a scope ends with a slash on both sides"),
        ("a = old_vocab=b", "a vocabulary belongs to one variable"),
        ("a/ = b/ new_vocab=c", "a vocabulary belongs to one variable"),
        ("a = b\n\na = c", r"names\.map:3: a is in .*names\.map:1 too: use one line"),
    ],
)
def test_a_line_of_another_form_is_refused_with_its_place(tmp_path: pathlib.Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        map_of(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"warm_start_map=.*none cannot be read .*: give a text file"):
        read_map(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deep/kernal = dnn/w", "the model has no variable deep/kernal: the nearest names are deep/kernel"),
        ("deep/kernel = dnn/v", "day1 has no variable dnn/v: the nearest names are dnn/w"),
        ("dep/ = dnn/", "the model has no scope dep/: the nearest names are deep/"),
        ("deep/ = dm/", "day1 has no scope dm/: the nearest names are dnn/"),
    ],
)
def test_a_name_that_is_on_neither_side_is_named_with_its_neighbours(
    tmp_path: pathlib.Path, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        map_of(tmp_path, text).check(["deep/kernel", "bias"], ["dnn/w", "b"], "day1")


def test_names_of_both_sides_and_none_for_a_new_variable_are_right(tmp_path: pathlib.Path) -> None:
    names = map_of(tmp_path, "deep/ = dnn/\nbias =\ndeep/kernel = b\n")
    names.check(["deep/kernel", "bias"], ["dnn/w", "b"], "day1")
