"""Synthetic clicks are made once for a user, whatever processes ask for them."""

from __future__ import annotations

import fcntl
import logging
import pathlib
import threading

import pytest

from ps_train.base.errors import DataError
from ps_train.models.clicks import cache
from ps_train.models.clicks.cache import cached_synthetic_data


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> list[tuple[str, int]]:
    """The calls that have made files, in a cache of this test."""
    calls: list[tuple[str, int]] = []

    def write_files(directory: str, lines: int) -> None:
        calls.append((directory, lines))
        pathlib.Path(directory).mkdir()
        pathlib.Path(directory, "train-00000.txt").write_text("x" * lines)

    monkeypatch.setattr(cache, "write_files", write_files)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def test_data_are_made_at_the_first_call_and_appear_when_they_are_complete(made, tmp_path, caplog) -> None:
    folder = str(tmp_path / "cache" / "ps_train" / "criteo-7")
    with caplog.at_level(logging.INFO):
        assert cached_synthetic_data(7) == cached_synthetic_data(7) == folder
    line = f"no data_dir is given: making 7 lines of synthetic clicks in {folder}"
    assert [record.getMessage() for record in caplog.records] == [line]
    assert made == [(f"{folder}.unfinished", 7)]
    assert pathlib.Path(folder, "train-00000.txt").read_text() == "x" * 7
    assert cached_synthetic_data(8) == folder.replace("-7", "-8") and len(made) == 2


def test_what_a_killed_process_has_left_is_made_again(made, tmp_path: pathlib.Path) -> None:
    left = tmp_path / "cache" / "ps_train" / "criteo-7.unfinished"
    left.mkdir(parents=True)
    (left / "train-00001.txt").write_text("half")
    folder = pathlib.Path(cached_synthetic_data(7))
    assert [file.name for file in folder.iterdir()] == ["train-00000.txt"] and not left.exists()


@pytest.mark.parametrize("value", ["", None])
def test_without_a_directory_of_its_own_the_cache_is_in_the_home(made, monkeypatch, tmp_path, value) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cached_synthetic_data(7) == str(tmp_path / ".cache" / "ps_train" / "criteo-7")


def test_a_second_process_waits_for_the_first_and_makes_nothing(made, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "cache" / "ps_train" / "criteo-7"
    folder.parent.mkdir(parents=True)
    found: list[str] = []
    with (folder.parent / "criteo-7.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: found.append(cached_synthetic_data(7)), daemon=True)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        folder.mkdir()
    waiting.join(20)
    assert found == [str(folder)] and made == []


def test_a_cache_that_cannot_be_written_is_refused_with_what_helps(made, tmp_path: pathlib.Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match=r"cache/ps_train cannot be written \(.+\): set XDG_CACHE_HOME"):
        cached_synthetic_data(7)
