"""A pinned checkpoint stays while the run removes its own."""

from __future__ import annotations

import os
import pathlib
import socket

import pytest

from ps_train.engine.run_directory.pinned import Pins


def checkpoint(directory: pathlib.Path, step: int, content: str = "x") -> str:
    for end in ("index", "data-00000-of-00001"):
        (directory / f"model.ckpt-{step}.{end}").write_text(f"{content} {end}")
    return str(directory / f"model.ckpt-{step}")


def remove(path: str) -> None:
    for end in ("index", "data-00000-of-00001"):
        os.remove(f"{path}.{end}")


def test_a_pinned_checkpoint_outlives_the_original(tmp_path: pathlib.Path) -> None:
    pins, path = Pins(str(tmp_path)), checkpoint(tmp_path, 5)
    pinned = pins.pin(path)
    remove(path)
    assert pathlib.Path(pinned + ".index").read_text() == "x index"
    assert pathlib.Path(pinned + ".data-00000-of-00001").read_text() == "x data-00000-of-00001"


def test_a_checkpoint_that_was_written_again_is_pinned_as_it_is_now(tmp_path: pathlib.Path) -> None:
    pins = Pins(str(tmp_path))
    pins.pin(checkpoint(tmp_path, 5, "old"))
    remove(str(tmp_path / "model.ckpt-5"))
    pinned = pins.pin(checkpoint(tmp_path, 5, "new"))
    assert pathlib.Path(pinned + ".index").read_text() == "new index"


def test_the_others_are_removed_and_with_the_last_one_the_folder(tmp_path: pathlib.Path) -> None:
    pins = Pins(str(tmp_path))
    pinned = [pins.pin(checkpoint(tmp_path, step)) for step in (1, 2, 12)]
    pins.keep_only({pinned[0], pinned[2]})
    assert sorted(os.listdir(os.path.dirname(pinned[0]))) == [
        f"model.ckpt-{step}.{end}" for step in (1, 12) for end in ("data-00000-of-00001", "index")
    ]
    pins.keep_only()
    assert not os.path.exists(os.path.dirname(pinned[0]))


def test_a_checkpoint_that_is_gone_cannot_be_pinned(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        Pins(str(tmp_path)).pin(str(tmp_path / "model.ckpt-9"))


def test_pins_of_killed_processes_of_this_host_are_removed(tmp_path: pathlib.Path) -> None:
    host = socket.gethostname()
    folders = [f".pinned-{host}-{pid}" for pid in (4_194_304 + 1, os.getppid(), os.getpid())] + [
        ".pinned-other-4194305"
    ]
    for folder in folders:
        (tmp_path / folder).mkdir()
    Pins(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([folders[1], folders[3]])
