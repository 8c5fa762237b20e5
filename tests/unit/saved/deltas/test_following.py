"""A served model follows a directory of a base and its deltas: whole versions alone, verified, in place."""

from __future__ import annotations

import itertools
import pathlib
import shutil
import threading
import time

import numpy as np
import pytest

from ps_train import serving
from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.saved import values as saved
from ps_train.saved.deltas import following
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.values import open_saved
from tests.support.saved.exported_models import write_table_export

ROWS = 200


def history(folder: pathlib.Path, versions: int) -> list[np.ndarray]:
    """Writes a base, and deltas into `deltas` beside it; returns what each version predicts for all ids."""
    chance, expected, paths = np.random.default_rng(0), [], []
    table = chance.normal(size=(ROWS, 4)).astype(np.float32)
    for version in range(versions):
        weight = 1.0 + version
        paths.append(write_table_export(folder / "all" / str(version), table, weight))
        expected.append(table * np.float32(weight))
        table = table.copy()
        table[chance.integers(0, ROWS, 10)] += 1
    shutil.copytree(paths[0], folder / "served" / "base" / "1")
    (folder / "deltas").mkdir()
    for version in range(1, versions):
        make_delta(open_saved(paths[version - 1]), open_saved(paths[version]), str(folder / "deltas" / f"{version:04}"))
    return expected


def publish(folder: pathlib.Path, version: int) -> None:
    target = folder / "served" / "deltas" / f"{version:04}"
    target.parent.mkdir(exist_ok=True)
    shutil.copytree(folder / "deltas" / f"{version:04}", target.with_name("x.new"))
    target.with_name("x.new").rename(target)


@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_predictions_are_those_of_one_version_while_deltas_come(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(saved, "CHUNK_BYTES", 512)  # the table has several parts
    monkeypatch.setattr(following, "_KEPT_BYTES", kept)
    expected = history(tmp_path, 4)
    publish(tmp_path, 1)
    ids, seen, wrong, stop = np.arange(ROWS), set(), [], threading.Event()
    with serving.load(str(tmp_path / "served"), poll_secs=0.05) as model:
        np.testing.assert_array_equal(model.predict({"id": ids})["rows"], expected[1])

        def ask() -> None:
            while not stop.is_set():
                found = model.predict({"id": ids}, batch_size=50)["rows"]
                version = next((number for number, rows in enumerate(expected) if np.array_equal(found, rows)), None)
                wrong.append(found) if version is None else seen.add(version)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for version in (2, 3):
            publish(tmp_path, version)
            deadline = time.monotonic() + 60
            while version not in seen and time.monotonic() < deadline:
                time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong and seen >= {2, 3}
        np.testing.assert_array_equal(model.predict({"id": ids})["rows"], expected[3])


def test_damaged_foreign_and_branching_deltas_leave_the_model_as_it_is(tmp_path: pathlib.Path) -> None:
    expected, ids = history(tmp_path, 3), np.arange(ROWS)
    served = tmp_path / "served"
    with serving.load(str(served), poll_secs=0) as model:
        publish(tmp_path, 2)  # the one before it is missing
        assert model.update() == 0 and model.problem is None
        publish(tmp_path, 1)
        manifest = served / "deltas" / "0001" / "delta.json"
        text = manifest.read_text()
        manifest.write_text(text.replace('"hash": "', '"hash": "', 1))
        data = next(path for path in (served / "deltas" / "0001").iterdir() if ".data-" in path.name)
        content = data.read_bytes()
        data.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(DamagedCheckpointError):
            model.update()
        np.testing.assert_array_equal(model.predict({"id": ids})["rows"], expected[0])
        data.write_bytes(content)
        other = write_table_export(tmp_path / "other", np.zeros((ROWS, 4), np.float32), 1.0)
        make_delta(open_saved(str(served / "base" / "1")), open_saved(other), str(served / "deltas" / "branch"))
        with pytest.raises(ConfigError, match="both lead on from hash"):
            model.update()
        shutil.rmtree(served / "deltas" / "branch")
        assert model.update() == 2
        np.testing.assert_array_equal(model.predict({"id": ids})["rows"], expected[2])
        larger = write_table_export(tmp_path / "larger", np.zeros((ROWS + 1, 4), np.float32), 1.0)
        last = str(tmp_path / "all" / "2")
        make_delta(open_saved(last), open_saved(larger), str(served / "deltas" / "larger"))
        with pytest.raises(ConfigError, match="changes the shapes of variables: load a new base"):
            model.update()
        np.testing.assert_array_equal(model.predict({"id": ids})["rows"], expected[2])


def history_of(folder: pathlib.Path, contents: str) -> dict[str, np.ndarray]:
    """As `history`, for contents that come back, each a letter; returns what each predicts."""
    chance, tables, paths = np.random.default_rng(1), {}, {}
    for name in sorted(set(contents)):
        tables[name] = chance.normal(size=(ROWS, 4)).astype(np.float32)
        paths[name] = write_table_export(folder / "all" / name, tables[name], 1.0)
    shutil.copytree(paths[contents[0]], folder / "served" / "base" / "1")
    (folder / "deltas").mkdir()
    for number, (old, new) in enumerate(itertools.pairwise(contents), 1):
        make_delta(open_saved(paths[old]), open_saved(paths[new]), str(folder / "deltas" / f"{number:04}"))
    return tables


def test_deltas_that_lead_back_are_served_by_one_that_follows_and_by_one_that_starts(tmp_path: pathlib.Path) -> None:
    contents, ids = "ABABC", np.arange(ROWS)
    expected = history_of(tmp_path, contents)
    with serving.load(str(tmp_path / "served"), poll_secs=0) as model:
        for version in range(1, len(contents)):
            publish(tmp_path, version)
            assert model.update() == 1 and model.update() == 0
            with serving.load(str(tmp_path / "served"), poll_secs=0) as started:
                for one in (model, started):
                    np.testing.assert_array_equal(one.predict({"id": ids})["rows"], expected[contents[version]])
    deltas = sorted(str(path) for path in (tmp_path / "deltas").iterdir())
    for count in range(1, len(contents)):
        result = apply_deltas(open_saved(str(tmp_path / "all" / "A")), deltas[:count], str(tmp_path / f"to{count}"))
        assert result.hash() == open_saved(str(tmp_path / "all" / contents[count])).hash()


def test_a_half_copied_delta_is_left_out_until_it_is_whole(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = history_of(tmp_path, "AB")
    publish(tmp_path, 1)
    manifest = tmp_path / "served" / "deltas" / "0001" / "delta.json"
    text = manifest.read_text()
    manifest.write_text(text[:100])
    with serving.load(str(tmp_path / "served"), poll_secs=0) as model:
        assert model.update() == 0 and caplog.text.count("the delta is left out") == 1
        manifest.write_text(text)
        assert model.update() == 1
        np.testing.assert_array_equal(model.predict({"id": np.arange(ROWS)})["rows"], expected["B"])


def test_what_is_copied_under_a_name_with_a_dot_is_left_out_until_it_is_renamed(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = history_of(tmp_path, "AB")
    coming = tmp_path / "served" / ".0001"
    shutil.copytree(tmp_path / "deltas" / "0001", coming)
    for file in coming.glob("values.*"):
        file.rename(tmp_path / file.name)
    shutil.copytree(tmp_path / "served" / "base" / "1", tmp_path / "served" / ".2")
    with serving.load(str(tmp_path / "served"), poll_secs=0) as model:
        assert model.update() == 0 and not caplog.messages
        for file in tmp_path.glob("values.*"):
            file.rename(coming / file.name)
        coming.rename(tmp_path / "served" / "0001")
        assert model.update() == 1
        np.testing.assert_array_equal(model.predict({"id": np.arange(ROWS)})["rows"], expected["B"])


def test_a_delta_with_another_file_than_its_manifest_says_is_not_served(tmp_path: pathlib.Path) -> None:
    paths = [write_table_export(tmp_path / name, np.full((ROWS, 4), n, np.float32), 1.0) for n, name in enumerate("AB")]
    pathlib.Path(paths[1], "assets.extra").mkdir()
    pathlib.Path(paths[1], "assets.extra", "fingerprint.json").write_text("{}")
    shutil.copytree(paths[0], tmp_path / "served" / "1")
    delta = tmp_path / "served" / "d1"
    make_delta(open_saved(paths[0]), open_saved(paths[1]), str(delta))
    (delta / "files" / "assets.extra" / "fingerprint.json").write_text('{"format": 1, "global_step": 7}')
    with pytest.raises(DamagedCheckpointError, match=r"fingerprint\.json is missing or has another hash"):
        serving.load(str(tmp_path / "served"), poll_secs=0)


def test_a_directory_without_a_model_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="has no SavedModel: give a directory with a base"):
        serving.load(str(tmp_path))
    with pytest.raises(ConfigError, match="directory=s3://b/x is not a local path"):
        serving.load("s3://b/x")
    with pytest.raises(ConfigError, match="has no base/ with a checkpoint: give the directory `deltas` of a run"):
        serving.load(str(tmp_path), export=str(tmp_path))


def test_a_negative_time_between_two_looks_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="poll_secs=-5 is not possible: use seconds"):
        serving.load(str(tmp_path), poll_secs=-5)
