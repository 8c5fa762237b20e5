"""A ps that sees the chief's directory writes and reads its own files there; the chief does it for the others."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, SaveError
from ps_train.engine.checkpoint import files
from ps_train.models.digits import Digits
from tests.support.clusters.cluster import InProcessCluster


class Disks:
    """A session in which some operations find another directory than the chief's under its path.

    Args:
      session: the session.
      elsewhere: operation to its directory.
    """

    def __init__(self, session: Any, elsewhere: dict[Any, pathlib.Path]) -> None:
        self._session, self._elsewhere, self.graph = session, elsewhere, session.graph

    def run(self, fetches: Any, feeds: Any, options: Any) -> Any:
        if fetches in self._elsewhere:
            feeds = {
                one: str(self._elsewhere[fetches] / pathlib.Path(value).name) if "path" in one.op.name else value
                for one, value in feeds.items()
            }
        return self._session.run(fetches, feeds, options)


def made(directory: pathlib.Path, **fields: Any) -> InProcessCluster:
    cluster = InProcessCluster(Digits(hidden=16), 2, 1, directory, batch_size=16, max_steps=100, **fields)
    cluster.start()
    return cluster


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path) -> pathlib.Path:
    """Another disk, with a file of the chief's name."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "chief").write_text("another text")
    return path


def test_every_ps_of_one_machine_is_found_and_nothing_is_left(tmp_path: pathlib.Path) -> None:
    left = tmp_path / "writer_probe-of-a-chief-that-was-killed"
    left.mkdir()
    (left / "chief").write_text("its text")
    cluster = made(tmp_path)
    assert cluster.checkpoints._directory_probe.find(cluster.saving, str(tmp_path)) == (frozenset([0, 1]), "")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("which", "place", "why"),
    [
        pytest.param("reads", "missing", "does not see the chief's", id="no such directory"),
        pytest.param("reads", ".", "does not see the chief's", id="another disk"),
        pytest.param("writes", "chief", "may not write into", id="no directory to write into"),
    ],
)
def test_a_ps_with_another_disk_or_without_permission_is_refused(
    tmp_path: pathlib.Path, elsewhere: pathlib.Path, which: str, place: str, why: str
) -> None:
    directory = tmp_path / "model"
    cluster = made(directory)
    probe = cluster.checkpoints._directory_probe
    disks = Disks(cluster.saving, {vars(probe)[f"_{which}"][1]: elsewhere / place})
    assert probe.find(disks, str(directory)) == (frozenset([0]), f"ps:1 {why} {directory}")


@pytest.mark.long
@pytest.mark.parametrize("refused", [[1], [0, 1]])
def test_the_chief_writes_and_reads_for_a_ps_that_does_not_see_its_directory(
    tmp_path: pathlib.Path, elsewhere: pathlib.Path, refused: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 1000)
    cluster = made(tmp_path / "model")
    checkpoints, session = cluster.checkpoints, cluster.saving
    checkpoints.find_writers(Disks(session, {checkpoints._directory_probe._reads[ps]: elsewhere for ps in refused}))
    by, run = set(), session.run

    def noted(fetches: Any, *arguments: Any, **fields: Any) -> Any:
        if getattr(fetches, "type", "") == "SaveV2":
            by.add(fetches.device.replace("/replica:0", "").partition("/device")[0])
        return run(fetches, *arguments, **fields)

    cluster.train(3)
    before = cluster.values()
    monkeypatch.setattr(session, "run", noted)
    assert cluster.snapshots.save(cluster.sessions[0]) == 3
    assert by == {"/job:worker/task:0", *(f"/job:ps/task:{ps}" for ps in {0, 1} - {*refused})}
    reader = tf.train.load_checkpoint(checkpoints.path(3))
    for name, value in before.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value, err_msg=name)
    cluster.train(2)
    assert checkpoints.restore(cluster.sessions[0]) == 3
    for name, value in cluster.values().items():
        np.testing.assert_array_equal(before[name], value, err_msg=name)


def test_with_checkpoint_writers_ps_a_ps_without_the_directory_is_an_error(
    tmp_path: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    cluster = made(tmp_path / "model", checkpoint_writers="ps")
    reads = cluster.checkpoints._directory_probe._reads
    with pytest.raises(ConfigError, match=r"checkpoint_writers=ps, but ps:1 does not see the chief.s .*/model: share"):
        cluster.checkpoints.find_writers(Disks(cluster.saving, {reads[1]: elsewhere}))


def test_with_checkpoint_writers_chief_no_ps_writes(tmp_path: pathlib.Path) -> None:
    cluster = made(tmp_path, checkpoint_writers="chief")
    saves = [op for op in cluster.snapshots.graph.get_operations() if op.type in ("SaveV2", "RestoreV2", "WriteFile")]
    assert saves and not [op.name for op in saves if "/job:ps" in op.device]


@pytest.mark.long
def test_a_directory_that_the_chief_cannot_write_to_is_reported_by_the_save(tmp_path: pathlib.Path) -> None:
    cluster = made(tmp_path / "model")
    (tmp_path / "file").write_text("")
    cluster.checkpoints.directory = str(tmp_path / "file")
    cluster.checkpoints.find_writers(cluster.sessions[0])
    assert not cluster.checkpoints._own_files
    with pytest.raises(SaveError, match="could not be written"):
        cluster.snapshots.save(cluster.sessions[0])
