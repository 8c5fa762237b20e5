"""Maps of names: their lines, scopes, and mistakes."""

from __future__ import annotations

import pathlib

import pytest

from ps_train.base.errors import ConfigError
from ps_train.saved.warm_start.name_map import NameMap, read_map


def map_of(tmp_path: pathlib.Path, text: str) -> NameMap:
    (tmp_path / "names.map").write_text(text)
    return read_map(str(tmp_path / "names.map"))


def test_a_name_counts_more_than_a_scope_and_the_longest_scope_most(tmp_path: pathlib.Path) -> None:
    names = map_of(tmp_path, "w = old_w   # renamed\n\ntower/ = deep/\ntower/last/ = head/\ntower/bias =\nnew/ =\n")
    wanted = {
        "w": "old_w", "w2": "w2", "tower/a": "deep/a", "tower/last/k": "head/k", "tower/bias": "", "new/x": "",
        "towers/a": "towers/a",
    }  # fmt: skip
    assert {name: names.old_name(name) for name in wanted} == wanted
    assert names.line_of("w") is not None and names.line_of("tower/a") is None
    assert NameMap().old_name("w") == "w" and read_map("") == NameMap()


def test_files_of_ids_are_relative_to_the_map(tmp_path: pathlib.Path) -> None:
    line = map_of(tmp_path, "users = members old_vocab=day1.txt new_vocab=/day2.txt\n").line_of("users")
    assert line is not None and (line.old, line.place) == ("members", f"{tmp_path}/names.map:1")
    assert (line.old_vocab, line.new_vocab) == (f"{tmp_path}/day1.txt", "/day2.txt")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("users", "use NAME = NAME_IN_THE_CHECKPOINT"),
        ("= members", "use NAME ="),
        ("two words = members", "use NAME ="),
        ("users = one two", "use NAME ="),
        ("users = a=b", "use NAME ="),
        ("users/ = members", "a scope ends with a slash on both sides"),
        ("users = members/", "a scope ends with a slash on both sides"),
        ("users/ = members/ old_vocab=a", "a vocabulary belongs to one variable"),
        ("users = old_vocab=a", "a vocabulary belongs to one variable"),
        ("a = b\na = c", "a stands in .*names.map:1 too"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(tmp_path: pathlib.Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"names\.map:{len(text.splitlines())}: .*{fault}"):
        map_of(tmp_path, text)


def test_a_map_that_cannot_be_read_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"warm_start_map=.*none cannot be read"):
        read_map(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tower/w = deep/v", "run/1 has no variable 'deep/v': the nearest names are deep/w"),
        ("tower/v = deep/w", "the model has no variable 'tower/v'"),
        ("towr/ = deep/", "the model has no scope 'towr/': the nearest names are tower/"),
        ("tower/ = deap/", "run/1 has no scope 'deap/'"),
    ],
)
def test_names_must_exist_on_both_sides(tmp_path: pathlib.Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        map_of(tmp_path, text).check({"tower/w", "b"}, {"deep/w", "b"}, "run/1")
    assert fault.replace("'", "") in str(caught.value).replace("'", "")
    map_of(tmp_path, "tower/ = deep/\nb =").check({"tower/w", "b"}, {"deep/w", "b"}, "run/1")
