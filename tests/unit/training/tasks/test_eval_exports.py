"""Exports of an evaluator: which evaluations are exported, also after a restart, and which exports are kept."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DamagedCheckpointError, ModelError, SaveError
from ps_train.config.job import Job
from ps_train.training.tasks import eval_exports
from ps_train.training.tasks.eval_exports import EvalExports
from tests.support.saved.checkpoints import write_checkpoint
from tests.support.saved.event_files import write


class Exporting:
    """Exports of a job, each an empty directory; after each evaluation its events are there."""

    def __init__(self, path: pathlib.Path, export: str) -> None:
        self.path, self._export, self.number = path, export, 0
        self.fails: Exception | None = None
        self.reads: Callable[[str], object] = str
        self.restart()

    def restart(self) -> None:
        job = Job(export=self._export, export_dir=str(self.path / "exports") if self._export != "final" else "")
        self.exports = EvalExports(job, str(self.path), self.write)

    def write(self, checkpoint: str, directory: str) -> str:
        self.reads(checkpoint)
        if self.fails is not None:
            raise self.fails
        self.number += 1
        path = os.path.join(directory, str(self.number))
        os.makedirs(path)
        return path

    def at(self, *losses: float, begin: int = 1) -> list[float]:
        """The losses of the evaluations that were exported; the steps are counted from `begin`."""
        exported = []
        for step, loss in enumerate(losses, begin):
            write(self.path / "eval", {step: {"loss": loss}})
            path = self.exports.add(step, f"model.ckpt-{step}", {"loss": loss})
            assert path is None or os.path.isdir(path)
            exported += [loss] if path is not None else []
        return exported

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path / "exports"), key=int)


def test_the_final_model_is_not_exported_by_the_evaluator(tmp_path):
    exporting = Exporting(tmp_path, "final")
    assert exporting.at(3.0, 2.0) == []
    assert not (tmp_path / "exports").exists()


def test_the_latest_models_are_all_exported_and_five_are_kept(tmp_path):
    exporting = Exporting(tmp_path, "latest")
    losses = [float(number) for number in range(7)]
    assert exporting.at(*losses) == losses
    assert exporting.names() == ["3", "4", "5", "6", "7"]


def test_exports_of_others_are_kept(tmp_path):
    (tmp_path / "exports" / "0").mkdir(parents=True)
    exporting = Exporting(tmp_path, "latest")
    exporting.at(*[1.0] * 6)
    assert exporting.names() == ["0", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("export", ["best", "best:loss", "best:-loss"])
def test_the_best_models_are_exported(tmp_path, export):
    assert Exporting(tmp_path, export).at(3.0, 4.0, 3.0, 2.0, 2.5, 1.0) == [3.0, 2.0, 1.0]


def test_the_direction_may_be_given(tmp_path):
    assert Exporting(tmp_path, "best:+loss").at(3.0, 4.0, 2.0) == [3.0, 4.0]


def test_a_metric_that_is_not_a_number_is_never_the_best(tmp_path):
    nan = float("nan")
    assert Exporting(tmp_path, "best").at(nan, 3.0, nan, 2.0) == [3.0, 2.0]


def test_after_a_restart_earlier_evaluations_count(tmp_path):
    exporting = Exporting(tmp_path, "best")
    assert exporting.at(3.0, 2.0) == [3.0, 2.0]
    exporting.restart()
    assert exporting.at(2.5, 1.5, begin=3) == [1.5]


def test_after_a_restart_the_evaluation_of_the_same_step_counts_not(tmp_path):
    exporting = Exporting(tmp_path, "best")
    exporting.at(3.0, 2.0)
    exporting.restart()
    assert exporting.at(2.0, begin=2) == [2.0]


def test_the_model_of_step_0_is_not_exported_and_no_bar(tmp_path):
    for name in ("latest", "best"):
        exporting = Exporting(tmp_path / name, name)
        assert exporting.at(1.0, 3.0, begin=0) == [3.0]


def test_the_bar_is_what_was_exported_also_after_a_restart(tmp_path, monkeypatch):
    exporting = Exporting(tmp_path, "best")
    assert exporting.at(3.0) == [3.0]
    exporting.fails = DamagedCheckpointError("the checkpoint is damaged")
    with pytest.raises(DamagedCheckpointError):
        exporting.at(1.0, begin=2)
    exporting.fails = None
    assert exporting.at(2.0, begin=3) == [2.0]
    exporting.restart()
    assert exporting.at(2.5, 1.5, begin=4) == [1.5]
    (tmp_path / "eval" / "exports.json").write_text("{")
    exporting.restart()
    assert exporting.at(9.0, begin=9) == [9.0]


def test_a_checkpoint_is_kept_until_its_model_is_exported(tmp_path, monkeypatch):
    monkeypatch.setattr(eval_exports, "_RETRY_SECS", 0.0)
    exporting = Exporting(tmp_path, "best")
    read = []
    exporting.reads = lambda path: read.append(float(tf.train.load_checkpoint(path).get_tensor("w")[0]))
    for step, loss in ((5, 2.0), (6, 3.0), (7, 2.5)):
        path = write_checkpoint(tmp_path, step)
        kept = exporting.exports.pinned(str(path))
        for file in tmp_path.glob("model.ckpt-*"):
            file.unlink()  # as the chief does
        exporting.fails = OSError(28, "No space left on device") if step < 7 else None
        exporting.exports.add(step, kept, {"loss": loss})
        assert [file.name for file in tmp_path.glob(".pinned-*/*.index")] == ["model.ckpt-5.index"][: step < 7]
    assert read == [5.0, 5.0, 5.0] and exporting.names() == ["1"], "the best one is tried again"
    assert exporting.exports.close() is None and not list(tmp_path.glob(".pinned-*"))
    with pytest.raises(DamagedCheckpointError, match="was removed"):
        exporting.exports.pinned(str(path))


def test_an_export_that_is_not_written_at_the_end_is_an_error(tmp_path):
    exporting = Exporting(tmp_path, "latest")
    exporting.fails = SaveError("the store is full")
    assert exporting.at(2.0) == []
    with pytest.raises(SaveError, match=r"export=latest.*the model of step 1 cannot be written .*the store is full"):
        exporting.exports.close()
    exporting.fails = None
    assert exporting.exports.close() is not None and exporting.names() == ["1"]


def test_a_metric_that_is_not_there_is_refused(tmp_path):
    exporting = Exporting(tmp_path, "best:auc")
    with pytest.raises(ModelError, match="export=best:auc has no such metric: use one of loss"):
        exporting.at(3.0)
    with pytest.raises(ModelError, match="use one of none; add metrics"):
        Exporting(tmp_path, "best").exports.add(1, "model.ckpt-1", {})


def test_a_directory_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "exports").write_text("a file")
    with pytest.raises(ConfigError, match=r"export_dir=.* cannot be written"):
        Exporting(tmp_path, "latest")
