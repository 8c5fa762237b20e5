"""Checkpoints that a reader pins stay when the run removes its own."""

from __future__ import annotations

import os
import pathlib
import socket

import pytest

from ps_train.engine.run_directory.pinned import Pins

OF_THIS_HOST = f".pinned-{socket.gethostname()}-"


def checkpoint(directory: pathlib.Path, step: int, text: str = "") -> str:
    for part in ("index", "data-00000-of-00001"):
        (directory / f"model.ckpt-{step}.{part}").write_text(f"{text}{part} of {step}")
    return str(directory / f"model.ckpt-{step}")


def removed(path: str) -> None:
    for part in ("index", "data-00000-of-00001"):
        os.remove(f"{path}.{part}")


def test_a_pinned_checkpoint_outlives_the_run_s_own(tmp_path: pathlib.Path) -> None:
    path = checkpoint(tmp_path, 5)
    pinned = Pins(str(tmp_path)).pin(path)
    assert pathlib.Path(pinned).parent == tmp_path / f"{OF_THIS_HOST}{os.getpid()}"
    removed(path)
    assert pathlib.Path(f"{pinned}.index").read_text() == "index of 5"
    assert pathlib.Path(f"{pinned}.data-00000-of-00001").read_text() == "data-00000-of-00001 of 5"


def test_a_step_that_is_pinned_again_has_the_files_of_now(tmp_path: pathlib.Path) -> None:
    pins, path = Pins(str(tmp_path)), checkpoint(tmp_path, 5)
    pinned = pins.pin(path)
    removed(path)
    pathlib.Path(f"{pinned}.data-00001-of-00002").write_text("of an earlier one")
    checkpoint(tmp_path, 5, "new ")
    assert pins.pin(path) == pinned
    assert pathlib.Path(f"{pinned}.index").read_text() == "new index of 5"
    assert sorted(os.listdir(os.path.dirname(pinned))) == [
        "model.ckpt-5.data-00000-of-00001",
        "model.ckpt-5.index",
    ]


def test_a_checkpoint_that_the_run_has_removed_is_not_pinned(tmp_path: pathlib.Path) -> None:
    pins, path = Pins(str(tmp_path)), checkpoint(tmp_path, 5)
    os.remove(f"{path}.index")
    with pytest.raises(FileNotFoundError):
        pins.pin(path)


def test_all_others_are_removed_and_the_folder_with_the_last_one(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a[b]*"  # characters of a pattern
    folder.mkdir()
    pins = Pins(str(folder))
    paths = {step: pins.pin(checkpoint(folder, step)) for step in (5, 50, 500)}
    pins.keep_only({paths[50]})
    assert sorted(os.listdir(os.path.dirname(paths[50]))) == [
        "model.ckpt-50.data-00000-of-00001",
        "model.ckpt-50.index",
    ]
    pins.keep_only()
    assert sorted(os.listdir(folder)) == sorted(
        f"model.ckpt-{step}.{part}" for step in (5, 50, 500) for part in ("data-00000-of-00001", "index")
    )


def test_what_ended_processes_of_this_host_have_pinned_is_removed(tmp_path: pathlib.Path) -> None:
    ended, living, own = (f"{OF_THIS_HOST}{pid}" for pid in (1 << 30, os.getppid(), os.getpid()))
    elsewhere = f".pinned-another-{1 << 30}"
    for name in (ended, living, own, elsewhere):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.ckpt-1.index").write_text("x")
    Pins(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([living, elsewhere])
