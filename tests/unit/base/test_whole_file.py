"""Files and directories that appear whole: a reader never finds a part, and leftovers have one ending."""

from __future__ import annotations

import os
import pathlib

import pytest

from ps_train.base.whole_file import NEW, whole_file, whole_folder, write_whole


@pytest.mark.parametrize("is_contended", [False, True])
def test_a_file_is_replaced_with_a_text_or_bytes_and_nothing_else_is_left(
    tmp_path: pathlib.Path, is_contended: bool
) -> None:
    path = tmp_path / "a.json"
    for content in ("first ä", b"\xffsecond"):
        write_whole(str(path), content, is_contended)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("is_contended", [False, True])
def test_the_file_of_before_is_there_until_the_body_ends_and_after_it_fails(
    tmp_path: pathlib.Path, is_contended: bool
) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), whole_file(str(path), is_contended) as new:
        pathlib.Path(new).write_text("a part")
        assert new.endswith(NEW) and os.path.dirname(new) == str(tmp_path)
        raise ZeroDivisionError
    assert path.read_text() == "before"


def test_the_next_writer_takes_the_place_of_what_a_killed_one_left(tmp_path: pathlib.Path) -> None:
    (tmp_path / f"a{NEW}").write_text("longer than the next one")
    write_whole(str(tmp_path / "a"), "short")
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "short"


def test_two_writers_at_the_same_time_have_files_of_their_own(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a")
    with whole_file(path, is_contended=True) as first, whole_file(path, is_contended=True) as second:
        assert first != second
        for number, new in enumerate((first, second)):
            pathlib.Path(new).write_text(str(number))
    assert pathlib.Path(path).read_text() == "0"  # that of the writer that ended last


def test_a_directory_gets_its_name_at_the_end_also_in_the_place_of_an_empty_one(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "folder"
    for is_there in (False, True):
        if is_there:
            (target / "file").unlink()
        with whole_folder(str(target)) as new:
            (pathlib.Path(new) / "file").write_text("x")
            assert new.endswith(NEW) and target.exists() is is_there
        assert os.listdir(tmp_path) == ["folder"] and os.listdir(target) == ["file"]


def test_of_a_body_that_fails_no_directory_is_left(tmp_path: pathlib.Path) -> None:
    with pytest.raises(KeyboardInterrupt), whole_folder(str(tmp_path / "folder")) as new:
        (pathlib.Path(new) / "file").write_text("x")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
