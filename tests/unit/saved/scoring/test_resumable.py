"""Chunks and their directory: what a part has done stays, and nothing of another origin is removed."""

from __future__ import annotations

import json
import os
import pathlib
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.scoring import resumable
from ps_train.saved.scoring.resumable import Scoring, ScoringPlan, ScoringProgress, check_target
from ps_train.saved.scoring.rows import DataSpec, Rows

pa = pytest.importorskip("pyarrow")


class Numbers(Rows):
    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def values(self) -> Mapping[str, Any]:
        return {"n": np.array(self.numbers)}

    def carried(self, columns: Sequence[str] | None) -> dict[str, Any]:
        return {name: pa.array(self.numbers, pa.int64()) for name in (["n"] if columns is None else columns)}


class Job:
    """A plan whose model doubles numbers; the parts are runs of them."""

    def __init__(self, directory: pathlib.Path, parts: Sequence[int] = (10, 0, 7), **fields: Any) -> None:
        self.plan = ScoringPlan("export", DataSpec(["a"]), str(directory / "out.csv"), **fields)
        self.called, self._parts = list[int](), parts
        self.scoring = Scoring.__new__(Scoring)
        exported: Any = types.SimpleNamespace(predict=self._predict, hash="h", outputs=["twice"])
        data: Any = types.SimpleNamespace(parts=len(parts), read=self._read, identity=lambda: [["a", 1, 2]])
        self.scoring._plan, self.scoring._exported, self.scoring.data = self.plan, exported, data
        self.scoring._outputs = [self.plan.prefix + "twice"]
        self.scoring.results = resumable.Results("csv", self.scoring._outputs, False, False, False)

    def _predict(self, values: Mapping[str, Any]) -> dict[str, Any]:
        self.called.extend(values["n"].tolist())
        return {"twice": 2 * values["n"]}

    def _read(self, part: int, batch_size: int) -> Iterator[Numbers]:
        first, count = sum(self._parts[:part]), self._parts[part]
        for begin in range(first, first + count, batch_size):
            yield Numbers(range(begin, min(begin + batch_size, first + count)))

    @property
    def folder(self) -> pathlib.Path:
        return pathlib.Path(self.plan.folder)

    def run(self, *parts: int) -> list[int]:
        """Scores some parts; returns the open ones."""
        with ScoringProgress.of(self.plan, self.scoring) as progress:
            for part in parts:
                self.scoring.score_part(part)
            return progress.open_parts()

    def finish(self) -> int:
        with ScoringProgress.of(self.plan, self.scoring) as progress:
            return progress.finish()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "_CHUNK_ROWS", 4)


EXPECTED = "n,twice\n" + "".join(f"{number},{2 * number}\n" for number in range(17))


def test_parts_in_any_order_give_the_result_in_that_of_the_data(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, batch_size=3)
    assert job.run() == [0, 1, 2] and job.run(2) == [0, 1] and job.run(0, 1) == []
    names = {name for name in os.listdir(job.folder) if "." in name and not name.endswith("json")}
    # Batches of 3, so chunks of 6, but for the last one of a part.
    assert names == {"000000.000000", "000000.000001", "000002.000000", "000002.000001", *(
        f"00000{part}.done" for part in range(3))}  # fmt: skip
    assert json.loads((job.folder / "000000.done").read_text()) == {"rows": 10, "chunks": 2}
    assert job.finish() == 17 and (tmp_path / "out.csv").read_text() == EXPECTED
    assert os.listdir(tmp_path) == ["out.csv"] and sorted(job.called) == list(range(17))


def test_a_chunk_has_as_many_rows_or_as_many_bytes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "_CHUNK_ROWS", 1000)
    monkeypatch.setattr(resumable, "_CHUNK_BYTES", 40)  # 5 numbers
    job = Job(tmp_path, batch_size=1)
    job.run(0, 1, 2)
    assert json.loads((job.folder / "000000.done").read_text())["chunks"] == 2
    assert json.loads((job.folder / "000002.done").read_text()) == {"rows": 7, "chunks": 2}


def test_a_chunk_that_is_there_is_not_made_again(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, batch_size=2)
    job.run(0, 1, 2)
    (job.folder / "000000.done").unlink()
    (job.folder / "000000.000001").unlink()
    before = (job.folder / "000000.000000").stat().st_ino
    job.called.clear()
    assert job.run() == [0] and job.run(0) == []
    assert job.called == [4, 5, 6, 7] and (job.folder / "000000.000000").stat().st_ino == before
    assert job.finish() == 17 and (tmp_path / "out.csv").read_text() == EXPECTED


def test_another_plan_starts_again(tmp_path: pathlib.Path) -> None:
    Job(tmp_path).run(0, 1, 2)
    assert Job(tmp_path).run() == []
    assert Job(tmp_path, batch_size=5).run() == [0, 1, 2]


@pytest.mark.parametrize(
    "fields", [{"signature": "s"}, {"to_format": "csv"}, {"columns": ("n",)}, {"prefix": "p"}, {"batch_size": 5}]
)
def test_all_that_the_result_depends_on_is_in_its_identity(tmp_path: pathlib.Path, fields: dict[str, Any]) -> None:
    first, other = Job(tmp_path).scoring, Job(tmp_path, **fields).scoring
    assert first.identity() == Job(tmp_path).scoring.identity() != other.identity()


def test_the_model_and_the_files_are_in_the_identity(tmp_path: pathlib.Path) -> None:
    scoring, data = Job(tmp_path).scoring, Job(tmp_path).scoring
    scoring._exported.hash = "another"
    data.data.identity = lambda: [["a", 1, 3]]  # type: ignore[method-assign]
    assert len({Job(tmp_path).scoring.identity(), scoring.identity(), data.identity()}) == 3


def test_predictions_have_their_prefix_and_no_name_of_a_column(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, prefix="p_")
    job.run(0, 1, 2)
    job.finish()
    assert (tmp_path / "out.csv").read_text().startswith("n,p_twice\n")
    (tmp_path / "b").mkdir()
    with pytest.raises(ConfigError, match="n is a column of the data and a prediction: rename predictions by --prefix"):
        job = Job(tmp_path / "b")
        job.scoring._outputs = ["n"]
        job.run(0)


def test_data_without_rows_have_no_result(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, parts=(0, 0))
    job.run(0, 1)
    with pytest.raises(DataError, match="the data have no rows: check --data"):
        job.finish()


def test_two_processes_do_not_write_one_result(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path)
    with (
        ScoringProgress.of(job.plan, job.scoring),
        pytest.raises(ConfigError, match="written by another process: wait"),
    ):
        job.run()
    assert job.run() == [0, 1, 2]


@pytest.mark.parametrize("name", ["mine.txt", "00000.000000", "000000.done.txt", "lock.txt", "000000.000000"])
def test_a_directory_with_other_files_is_left_alone(tmp_path: pathlib.Path, name: str) -> None:
    job = Job(tmp_path)
    job.folder.mkdir()
    (job.folder / name).write_text("precious")
    with pytest.raises(ConfigError, match=rf"that has files of another origin, as {name}: use another path"):
        job.run()
    assert os.listdir(job.folder) == [name]


def test_what_a_killed_process_has_left_is_taken_or_removed(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path)
    job.folder.mkdir()
    (job.folder / "lock").write_text("")
    job.run(0, 1, 2)
    for name in ("000000.000000.new", "whole", "plan.json.new"):
        (job.folder / name).write_text("half")
    assert job.finish() == 17 and os.listdir(tmp_path) == ["out.csv"]


def test_a_directory_that_cannot_be_made_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"to=.*/file/out\.csv cannot be written \(Not a directory\)"):
        Job(tmp_path / "file").run()


def test_a_result_that_is_there_stays_unless_it_is_to_be_overwritten(tmp_path: pathlib.Path) -> None:
    plan = Job(tmp_path).plan
    check_target(plan, overwrite=False)
    (tmp_path / "out.csv").write_text("before")
    check_target(plan, overwrite=True)
    with pytest.raises(ConfigError, match=r"out\.csv is there already: use another path, or --overwrite"):
        check_target(plan, overwrite=False)
    (tmp_path / "out.csv").unlink()
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(ConfigError, match=r"out\.csv is a directory: give the path of a file"):
        check_target(plan, overwrite=True)


def test_chunks_of_a_result_that_got_its_name_are_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path)
    job.run(0, 1, 2)
    monkeypatch.setattr(resumable, "_remove", lambda plan: None)  # the process ends before that
    job.finish()
    monkeypatch.undo()
    assert job.folder.exists()
    with pytest.raises(ConfigError, match="is there already"):
        check_target(job.plan, overwrite=False)
    assert not job.folder.exists() and (tmp_path / "out.csv").read_text() == EXPECTED


def test_chunks_of_another_result_stay(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path)
    job.run(0)
    (tmp_path / "out.csv").write_text("before")
    check_target(job.plan, overwrite=True)
    assert job.run() == [1, 2]


def test_the_chunks_of_a_result_at_an_address_are_local(tmp_path: pathlib.Path) -> None:
    plan = ScoringPlan("export", DataSpec(["a"]), "s3://bucket/out.csv")
    assert os.path.isabs(plan.folder) and Job(tmp_path).plan.folder == str(tmp_path / "out.csv.parts")
