"""A path without characters of a glob leads to the same file, and its descriptor is closed."""

from __future__ import annotations

import os
import pathlib

from ps_train.engine.run_directory.glob_free import glob_free


def test_an_ordinary_path_and_one_of_no_directory_stay_as_they_are(tmp_path: pathlib.Path) -> None:
    for path in (str(tmp_path / "model.ckpt-5"), str(tmp_path / "[gone]" / "model.ckpt-5"), "gs://a[b]/model.ckpt-5"):
        with glob_free(path) as readable:
            assert readable == path


def test_a_directory_with_such_characters_is_read_through_a_descriptor_that_is_closed_afterwards(
    tmp_path: pathlib.Path,
) -> None:
    directory = tmp_path / "a[b]*"
    directory.mkdir()
    (directory / "model.ckpt-5.index").write_text("here")
    open_before = os.listdir("/proc/self/fd")
    with glob_free(str(directory / "model.ckpt-5")) as readable:
        assert not set(readable) & set("*?[]\\")
        assert pathlib.Path(readable + ".index").read_text() == "here"
    assert os.listdir("/proc/self/fd") == open_before
