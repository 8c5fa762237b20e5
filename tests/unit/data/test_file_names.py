"""Patterns of files: names with characters of patterns, directories, and what is told where nothing is found."""

from __future__ import annotations

import os
import pathlib

import pytest

from ps_train.base.errors import DataError
from ps_train.data.file_names import files_like

NAMES = ["run[1]", "a*b", "q?x", "d[a-b]*"]


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("name", NAMES)
def test_a_directory_that_exists_stands_for_itself(tmp_path: pathlib.Path, name: str, scheme: str) -> None:
    if scheme:
        pytest.importorskip("fsspec")
        scheme = "local://"
    for folder in (name, "run1", "aab", "qqx", "da"):
        (tmp_path / folder / "in[1]").mkdir(parents=True)
        for file in ("x.csv", "y[1].csv", "y1.csv", "in[1]/z.csv"):
            (tmp_path / folder / file).write_text("1\n")
    start = f"{scheme}{tmp_path}/{name}/"

    def found(pattern: str, **options: bool) -> list[str]:
        return [path.partition(f"{tmp_path}/{name}/")[2] for path in files_like(start + pattern, **options)]

    assert found("*.csv") == ["x.csv", "y1.csv", "y[1].csv"]
    assert found("y[1].csv") == ["y[1].csv"] and found("y[0-9].csv") == ["y1.csv"]
    assert found("in[1]/*") == ["in[1]/z.csv"] and found("*/z.csv") == ["in[1]/z.csv"]
    assert found("", below=True) == ["in[1]/z.csv", "x.csv", "y1.csv", "y[1].csv"]
    with pytest.raises(DataError, match="no file has a name like"):
        files_like(f"{start}no*")


def test_brackets_match_where_no_such_name_exists(tmp_path: pathlib.Path) -> None:
    for name in ("a1", "a2", "a3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("1")
    assert files_like(f"{tmp_path}/a[12]/x") == [f"{tmp_path}/a1/x", f"{tmp_path}/a2/x"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("no*", "no file has a name like no*: check --data."),
        ("no[1]", "check --data; [ in a name is written as [[] in a pattern."),
        ("*.csv", "a.csv is a directory; give the files in it, or check --data."),
    ],
)
def test_the_advice_fits_what_is_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, pattern: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("a.csv")
    with pytest.raises(DataError) as caught:
        files_like(pattern, source="--data")
    assert words in str(caught.value)
