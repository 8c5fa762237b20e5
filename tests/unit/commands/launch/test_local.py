"""The default run directory belongs to one job only."""

from __future__ import annotations

import concurrent.futures
import pathlib

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.launch import local
from ps_train.config.job import Job


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory in which it is always the same second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local.time, "strftime", lambda form: "20261121-214013")
    return tmp_path


def test_jobs_that_start_in_the_same_second_have_directories_of_their_own(second: pathlib.Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: local.new_directory(Job()), range(8)))
    assert len(set(made)) == 8
    assert all(pathlib.Path(path).is_dir() for path in made)
    assert str(second / "runs" / "digits-async-20261121-214013") in made


def test_a_directory_that_cannot_be_made_is_a_configuration_error(second: pathlib.Path) -> None:
    (second / "runs").write_text("a file")
    with pytest.raises(ConfigError, match=r"runs.*--model_dir"):
        local.new_directory(Job())
