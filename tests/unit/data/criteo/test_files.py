"""The files that hold each split."""

from __future__ import annotations

import gzip
import logging

import pytest

from ps_train.base.errors import DataError
from ps_train.data.criteo.files import SplitPart, files_of

LABELLED, UNLABELLED = "\t".join("1" * 40) + "\n", "\t".join("1" * 39) + "\n"


@pytest.fixture
def store(tmp_path):
    """Writes files of a name and a line; returns the directory."""

    def write(**lines):
        for name, line in lines.items():
            name = name.replace("__", "-").replace("_dot_", ".")
            (tmp_path / name).write_bytes(gzip.compress(line.encode()) if name.endswith(".gz") else line.encode())
        return str(tmp_path)

    return write


def chosen(directory, split):
    found = files_of(directory, split)
    return [path.name for path in found.files], found.part


def test_labelled_test_files_are_the_test_split(store):
    directory = store(train__1=LABELLED, train__0=LABELLED, test_dot_txt=LABELLED, readme_dot_txt="hello")
    assert chosen(directory, "train") == (["train-0", "train-1"], SplitPart.ALL)
    assert chosen(directory, "test") == (["test.txt"], SplitPart.ALL)


@pytest.mark.parametrize("test", ["test_dot_txt", "test_dot_txt_dot_gz"])
def test_the_challenges_own_test_file_is_left_out_and_that_is_said(store, test, caplog):
    directory = store(**{"train_dot_txt": LABELLED, test: UNLABELLED})
    with caplog.at_level(logging.INFO):
        assert chosen(directory, "train") == (["train.txt"], SplitPart.NOT_HELD_OUT)
        assert chosen(directory, "test") == (["train.txt"], SplitPart.HELD_OUT)
    assert "has no labels" in caplog.text


@pytest.mark.parametrize("name", ["part__00000", "day_0", "train_dot_txt_dot_gz"])
def test_without_test_files_a_part_of_the_others_is_held_out(store, name):
    directory = store(**{name: LABELLED})
    assert chosen(directory, "train")[1] == SplitPart.NOT_HELD_OUT
    assert chosen(directory, "test")[1] == SplitPart.HELD_OUT
    assert chosen(directory, "train")[0] == chosen(directory, "test")[0] != []


def test_a_single_file_may_have_any_name(store):
    path = store(anything=LABELLED) + "/anything"
    assert chosen(path, "train") == (["anything"], SplitPart.NOT_HELD_OUT)
    assert chosen(path, "test") == (["anything"], SplitPart.HELD_OUT)


def test_a_plain_file_is_preferred_to_a_gzipped_one_of_the_same_name(store):
    assert chosen(store(train_dot_txt=LABELLED, train_dot_txt_dot_gz=LABELLED), "train")[0] == ["train.txt"]


def test_a_directory_within_the_directory_is_no_file(store, tmp_path):
    (tmp_path / "train").mkdir()
    assert chosen(store(train_dot_txt=LABELLED), "train")[0] == ["train.txt"]


@pytest.mark.parametrize("files", [{}, {"readme_dot_txt": "hello"}, {"test_dot_txt": LABELLED}])
def test_a_directory_without_training_files_is_refused_with_what_to_do(store, files):
    directory = store(**files)
    with pytest.raises(DataError) as caught:
        files_of(directory, "train")
    assert f"data_dir={directory}" in str(caught.value)
    assert "train.txt" in str(caught.value)
    assert "--make" in str(caught.value)


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"data_dir=.*none is neither a file nor a directory.*--data_dir"):
        files_of(str(tmp_path / "none"), "train")


def test_a_data_dir_that_was_not_given_is_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(LABELLED)
    with pytest.raises(DataError, match=r"not given.*--data_dir"):
        files_of("", "train")


def test_a_test_file_that_cannot_be_read_is_named(store, tmp_path):
    directory = store(train_dot_txt=LABELLED)
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(LABELLED.encode())[:12])
    with pytest.raises(DataError, match=r"test\.txt\.gz cannot be read"):
        files_of(directory, "test")
