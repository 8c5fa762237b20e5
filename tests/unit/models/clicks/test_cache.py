"""Synthetic data are made once for a user, by one process."""

from __future__ import annotations

import os
import pathlib
import threading

import pytest

from ps_train.base.errors import DataError
from ps_train.models.clicks import cache
from ps_train.models.clicks.cache import cached_synthetic_data


@pytest.fixture
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ps_train"


def test_data_are_made_once_and_appear_whole(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []

    def write(directory: str, lines: int) -> None:
        os.makedirs(directory)
        assert not (home / "criteo-500").exists()
        made.append((directory, lines))

    monkeypatch.setattr(cache, "write_files", write)
    (home / "criteo-500.unfinished").mkdir(parents=True)  # of a process that was killed
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(cached_synthetic_data(500))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [str(home / "criteo-500")] * 3 and made == [(str(home / "criteo-500.unfinished"), 500)]
    assert not (home / "criteo-500.unfinished").exists()


def test_a_cache_that_cannot_be_written_is_an_error_with_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot be written .*: set XDG_CACHE_HOME to a writable directory"):
        cached_synthetic_data(500)
