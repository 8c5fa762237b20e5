"""Predictions go on after any end: chunks, parts, and the directory between them and the result."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import pytest

from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.scoring import resumable
from ps_train.saved.scoring.resumable import ScoringPlan, ScoringProgress, check_target
from ps_train.saved.scoring.rows import DataSpec


@dataclasses.dataclass
class Scoring:
    """The numbers of some parts; each chunk has a line for each."""

    parts: list[list[int]]
    version: str = "1"

    @property
    def data(self) -> Any:
        return dataclasses.make_dataclass("Data", ["parts"])(len(self.parts))

    @property
    def results(self) -> Any:
        return self

    def identity(self) -> str:
        return self.version

    def score(self, plan: ScoringPlan, part: int) -> None:
        for number, one in enumerate(self.parts[part]):
            pathlib.Path(plan.folder, f"{part:06}.{number:06}").write_text(f"{one}\n")
        done = {"rows": len(self.parts[part]), "chunks": len(self.parts[part])}
        pathlib.Path(plan.folder, f"{part:06}.done").write_text(json.dumps(done))

    def join(self, chunks: list[str], whole: str) -> None:
        pathlib.Path(whole).write_text("".join(pathlib.Path(chunk).read_text() for chunk in chunks))


@pytest.fixture
def plan(tmp_path: pathlib.Path) -> ScoringPlan:
    return ScoringPlan("export/1", DataSpec(["data"]), str(tmp_path / "out.csv"))


def progress(plan: ScoringPlan, scoring: Scoring) -> Any:
    given: Any = scoring
    return ScoringProgress.of(plan, given)


def test_parts_that_are_there_are_not_made_again_and_the_result_has_their_order(plan: ScoringPlan) -> None:
    scoring = Scoring([[1, 2], [3], [4, 5]])
    with progress(plan, scoring) as first:
        assert first.open_parts() == [0, 1, 2]
        scoring.score(plan, 1)
    with progress(plan, scoring) as again:
        assert again.open_parts() == [0, 2]
        scoring.score(plan, 2)
        scoring.score(plan, 0)
        assert again.open_parts() == [] and again.finish() == 5
    assert pathlib.Path(plan.to).read_text() == "1\n2\n3\n4\n5\n" and not os.path.exists(plan.folder)


def test_another_model_or_other_data_begin_again(plan: ScoringPlan) -> None:
    with progress(plan, Scoring([[1]])):
        Scoring([[1]]).score(plan, 0)
    with progress(plan, Scoring([[1]], version="2")) as again:
        assert again.open_parts() == [0] and sorted(os.listdir(plan.folder)) == ["lock", "plan.json"]


def test_two_processes_do_not_write_one_result(plan: ScoringPlan) -> None:
    with (
        progress(plan, Scoring([[1]])),
        pytest.raises(ConfigError, match="is being written by another process: wait for it"),
        progress(plan, Scoring([[1]])),
    ):
        pass


def test_data_without_rows_are_an_error(plan: ScoringPlan) -> None:
    scoring = Scoring([[], []])
    with progress(plan, scoring) as found:
        for part in (0, 1):
            scoring.score(plan, part)
        with pytest.raises(DataError, match="the data have no rows"):
            found.finish()


@pytest.mark.parametrize("name", ["notes.txt", "000000.00000", "plan.json.txt"])
def test_a_directory_with_other_files_is_not_touched(plan: ScoringPlan, name: str) -> None:
    os.mkdir(plan.folder)
    pathlib.Path(plan.folder, name).write_text("precious")
    with pytest.raises(ConfigError, match=f"files of another origin, as {name}"), progress(plan, Scoring([[1]])):
        pass
    assert os.listdir(plan.folder) == [name]


def test_chunks_without_a_plan_are_of_another_origin(plan: ScoringPlan) -> None:
    os.mkdir(plan.folder)
    pathlib.Path(plan.folder, "000000.000000").write_text("x")
    with pytest.raises(ConfigError, match=r"as 000000\.000000"), progress(plan, Scoring([[1]])):
        pass


def test_a_result_is_replaced_only_if_that_was_asked_for(plan: ScoringPlan) -> None:
    check_target(plan, overwrite=False)
    pathlib.Path(plan.to).write_text("x")
    with pytest.raises(ConfigError, match="is there already: use another path, or --overwrite"):
        check_target(plan, overwrite=False)
    check_target(plan, overwrite=True)
    os.unlink(plan.to)
    os.mkdir(plan.to)
    with pytest.raises(ConfigError, match="is a directory: give the path of a file"):
        check_target(plan, overwrite=True)


def test_what_a_process_left_that_ended_right_after_its_result_is_removed(
    plan: ScoringPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring = Scoring([[1]])
    monkeypatch.setattr(resumable, "_remove", lambda plan: None)  # the process ends here
    with progress(plan, scoring) as found:
        scoring.score(plan, 0)
        found.finish()
    monkeypatch.undo()
    assert os.path.exists(plan.folder) and os.path.exists(plan.to)
    with pytest.raises(ConfigError, match="is there already"):
        check_target(plan, overwrite=False)
    assert not os.path.exists(plan.folder)


def test_chunks_of_an_address_are_in_tmpdir(plan: ScoringPlan) -> None:
    remote = dataclasses.replace(plan, to="s3://b/out.csv")
    assert plan.folder == f"{plan.to}.parts" and "s3:" not in remote.folder and os.path.isabs(remote.folder)
    assert remote.folder != dataclasses.replace(plan, to="s3://b/other.csv").folder
