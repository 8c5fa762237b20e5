"""Checkpoints: whole, the chief's own, and independent of the number of ps."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.engine.checkpoint import files
from ps_train.engine.checkpoint.files import checkpoints_in, prepare_directory
from ps_train.models.digits import Digits
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long

FIELDS = {"optimizer": "adam", "batch_size": 8}


@pytest.fixture(params=["at once", "in chunks"])
def chunked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "in chunks":
        monkeypatch.setattr(files, "CHUNK_BYTES", 700)
    return bool(request.param == "in chunks")


@pytest.mark.parametrize("num_ps", [long(1), 3])
@pytest.mark.usual(1)
def test_a_checkpoint_of_two_ps_restores_into_another_number(
    tmp_path: pathlib.Path, num_ps: int, chunked: bool
) -> None:
    first = InProcessCluster(Digits(hidden=16), 2, 1, tmp_path, **FIELDS)
    first.start()
    first.train(7)
    assert first.checkpoints is not None
    assert first.checkpoints.save(first.sessions[0]) == 7
    second = InProcessCluster(Digits(hidden=16), num_ps, 1, tmp_path, **FIELDS)
    assert second.start(restore=True) == 7
    before, after = first.values(), second.values()
    assert before.keys() == after.keys() and "hidden1/weights/Adam" in before and "beta1_power" in before
    for name, value in before.items():
        assert np.array_equal(value, after[name]), name
    followers = [s for s in second.steps[0].ps.entries if s.follower]
    kinds = {"beta1_power", "beta2_power", "global_step"}  # the clocks of the other ps begin with the global step
    assert {s.key for s in followers} == (kinds if num_ps > 1 else set())
    assert len(followers) == len(kinds) * (num_ps - 1)
    for stored in followers:
        assert second.sessions[0].run(stored.variable) == before[stored.key]


@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1])
def test_a_ps_that_has_made_fewer_updates_than_another_keeps_its_own_count_of_them(
    tmp_path: pathlib.Path, lost: int, chunked: bool
) -> None:
    """Adam corrects its moments by powers of beta, which are those of the updates of this ps."""
    cluster = InProcessCluster(Digits(hidden=16), 2, 1, tmp_path, **FIELDS)
    cluster.start()
    checkpoints, session = cluster.checkpoints, cluster.sessions[0]
    assert checkpoints is not None
    powers = [s.variable for s in cluster.steps[0].ps.entries if s.key == "beta1_power"]

    def updates() -> list[int]:
        return [round(np.log(power) / np.log(0.9)) - 1 for power in session.run(powers)]

    cluster.train(4)
    checkpoints.save(session)
    cluster.train(3)
    checkpoints.restore(session, only=[lost])
    expected = [4 if ps == lost else 7 for ps in range(2)]
    assert updates() == expected
    checkpoints.save(session)
    cluster.train(2)
    checkpoints.restore(session)
    assert updates() == expected


@pytest.mark.usual(1)
def test_tensorflow_reads_a_checkpoint_with_ordinary_names_and_whole_shapes(
    tmp_path: pathlib.Path, chunked: bool
) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 3, 1, tmp_path, **FIELDS)
    cluster.start()
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert reader.get_variable_to_shape_map()["hidden1/weights"] == [64, 16]
    for name, value in cluster.values().items():
        assert np.array_equal(reader.get_tensor(name), value), name
    files = list(tmp_path.glob("model.ckpt-0.data-*"))
    assert len(files) > 10 if chunked else len(files) == 3
    assert not list(tmp_path.glob("*_temp"))


@pytest.mark.long
def test_the_step_in_a_checkpoint_is_that_of_its_name_even_if_others_train_meanwhile(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, **FIELDS)
    cluster.start()
    cluster.train(2)
    assert cluster.checkpoints is not None
    write = cluster.checkpoints._write

    def train_and_write(*arguments: Any) -> None:
        cluster.train(1)
        write(*arguments)

    monkeypatch.setattr(cluster.checkpoints, "_write", train_and_write)
    assert cluster.checkpoints.save(cluster.sessions[0]) == 2
    assert cluster.global_step() == 3
    assert tf.train.load_checkpoint(cluster.checkpoints.path(2)).get_tensor("global_step") == 2


@pytest.mark.long
def test_what_is_left_of_a_save_that_was_killed_is_no_checkpoint_and_goes_with_the_next(tmp_path: pathlib.Path) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, **FIELDS)
    left = tmp_path / "model.ckpt-7_temp"
    left.mkdir()
    (left / "part-00000.index").write_text("half")
    assert cluster.start(restore=True) is None
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])
    assert not left.exists() and [step for step, _ in checkpoints_in(str(tmp_path))] == [0]


def test_old_checkpoints_go_and_a_damaged_one_is_passed_over_loudly(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, **FIELDS)
    cluster.start()
    assert cluster.checkpoints is not None
    for _ in range(5):
        cluster.train(1)
        cluster.checkpoints.save(cluster.sessions[0])
    assert [step for step, _ in checkpoints_in(str(tmp_path))] == [5, 4, 3]
    assert {file.name.split(".")[1] for file in tmp_path.glob("model.*")} == {"ckpt-3", "ckpt-4", "ckpt-5"}
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == str(tmp_path / "model.ckpt-5")
    assert list(state.all_model_checkpoint_paths) == [str(tmp_path / f"model.ckpt-{step}") for step in (3, 4, 5)]
    for step, cut in ((5, "data-00000-of-00001"), (4, "index")):
        file = tmp_path / f"model.ckpt-{step}.{cut}"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert cluster.checkpoints.restore(cluster.sessions[0]) == 3
    assert "model.ckpt-5 is damaged" in caplog.text and "model.ckpt-4 is damaged" in caplog.text
    assert cluster.global_step() == 3


@pytest.mark.long
def test_a_checkpoint_of_another_model_is_an_error_that_names_the_difference(tmp_path: pathlib.Path) -> None:
    first = InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, **FIELDS)
    first.start()
    assert first.checkpoints is not None
    first.checkpoints.save(first.sessions[0])
    with pytest.raises(ModelError, match=r"hidden1/bias of shape \[16\], the model of \[8\]"):
        InProcessCluster(Digits(hidden=8), 2, 1, tmp_path, **FIELDS).start(restore=True)
    with pytest.raises(ModelError, match="Momentum"):
        InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, optimizer="momentum").start(restore=True)


def test_a_directory_that_cannot_be_written_to_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/model cannot be written to"):
        prepare_directory(str(tmp_path / "file" / "model"))


@pytest.mark.parametrize("name", ["checkpoint", "result.json", "run_id"])
def test_a_directory_in_the_place_of_a_file_is_refused_before_training(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigError, match=rf"model_dir={tmp_path} has a directory {name}, which is to be a file: use"):
        prepare_directory(str(tmp_path))


@pytest.mark.long
def test_what_another_optimizer_has_saved_is_dropped_loudly(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = InProcessCluster(Digits(hidden=16), 2, 1, tmp_path, **FIELDS)
    first.start()
    assert first.checkpoints is not None
    first.checkpoints.save(first.sessions[0])
    assert InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, **FIELDS).start(restore=True) == 0
    assert caplog.text == ""  # another number of ps drops nothing
    assert InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, optimizer="sgd").start(restore=True) == 0
    (message,) = caplog.messages
    assert "(beta1_power, beta2_power, hidden1/bias/Adam; 10 in all)" in message and "--optimizer" in message


@pytest.mark.long
def test_checkpoints_of_which_none_can_be_read_are_refused_and_not_touched(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 1, 1, tmp_path, **FIELDS)
    assert cluster.start(restore=True) is None
    assert cluster.checkpoints is not None
    for _ in range(2):
        cluster.train(1)
        cluster.checkpoints.save(cluster.sessions[0])
    for step, kind in ((1, "index"), (2, "data-00000-of-00001")):
        file = tmp_path / f"model.ckpt-{step}.{kind}"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=r"model.ckpt-2 is damaged: .*; 2 in all.*--ignore_checkpoints"):
        cluster.checkpoints.restore(cluster.sessions[0])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # of the first; there is none before the last


@pytest.mark.long
@pytest.mark.parametrize("name", ["a[b]c", long("a*?"), long("[!a] b"), long("a\\b")])
def test_a_directory_may_have_the_characters_of_a_pattern(tmp_path: pathlib.Path, name: str, chunked: bool) -> None:
    directory = tmp_path / name
    directory.mkdir()
    cluster = InProcessCluster(Digits(hidden=16), 2, 1, directory, **FIELDS)
    cluster.start()
    assert cluster.checkpoints is not None
    left = directory / "model.ckpt-7_temp"
    left.mkdir()
    for _ in range(5):
        cluster.train(1)
        cluster.checkpoints.save(cluster.sessions[0])
    before = cluster.values()
    assert [step for step, _ in checkpoints_in(str(directory))] == [5, 4, 3]
    assert {file.name.split(".")[1] for file in directory.glob("model.*")} == {"ckpt-3", "ckpt-4", "ckpt-5"}
    second = InProcessCluster(Digits(hidden=16), 1, 1, directory, **FIELDS)
    assert second.start(restore=True) == 5
    after = second.values()
    assert all(np.array_equal(value, after[key]) for key, value in before.items())
