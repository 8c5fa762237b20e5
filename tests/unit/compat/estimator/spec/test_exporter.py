"""Exporters after every evaluation and after the last one, and the exports that they keep."""

from __future__ import annotations

import os

import pytest

from ps_train.compat.estimator.spec.exporter import (
    Exporter,
    FinalExporter,
    LatestExporter,
    exports_in,
    remove_old_exports,
)


class Estimator:
    """An Estimator whose exports are empty directories with growing names."""

    def __init__(self):
        self.calls = []

    def export_saved_model(self, directory, receiver_fn, assets_extra=None, as_text=False, checkpoint_path=None):
        self.calls.append((directory, receiver_fn, assets_extra, as_text, checkpoint_path))
        path = f"{directory}/{1000000000 + len(self.calls)}"
        os.makedirs(path)
        return path


def receiver():
    raise AssertionError("only the Estimator calls it")


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_an_exporter_without_a_name_or_an_export_cannot_be_made():
    with pytest.raises(TypeError):
        Exporter()


def test_the_values_of_an_exporter_reach_the_estimator(tmp_path):
    estimator = Estimator()
    exporter = LatestExporter("latest", receiver, {"a": "/b"}, True)
    assert exporter.name == "latest"
    written = exporter.export(estimator, str(tmp_path), "model.ckpt-1", {"loss": 1.0}, False)
    assert estimator.calls == [(str(tmp_path), receiver, {"a": "/b"}, True, "model.ckpt-1")]
    assert written == str(tmp_path / "1000000001")


@pytest.mark.parametrize("count", [0, -1])
def test_point_82_the_number_of_exports_is_positive(count):
    with pytest.raises(ValueError, match=f"exports_to_keep={count} is not valid: .* None to keep all"):
        LatestExporter("latest", receiver, exports_to_keep=count)


def test_point_82_every_evaluation_is_exported_and_five_are_kept(tmp_path):
    estimator, exporter = Estimator(), LatestExporter("latest", receiver)
    for number in range(7):
        assert exporter.export(estimator, str(tmp_path), f"model.ckpt-{number}", {}, number == 6)
    assert names(tmp_path) == [f"100000000{number}" for number in range(3, 8)]


def test_point_82_all_exports_may_be_kept(tmp_path):
    estimator, exporter = Estimator(), LatestExporter("latest", receiver, exports_to_keep=None)
    for number in range(7):
        exporter.export(estimator, str(tmp_path), f"model.ckpt-{number}", {}, False)
    assert len(names(tmp_path)) == 7


def test_point_82_the_final_exporter_exports_once_at_the_end(tmp_path):
    estimator, exporter = Estimator(), FinalExporter("final", receiver)
    assert exporter.export(estimator, str(tmp_path), "model.ckpt-1", {}, False) is None
    assert estimator.calls == []
    assert exporter.export(estimator, str(tmp_path), "model.ckpt-2", {}, True) == str(tmp_path / "1000000001")
    assert [call[4] for call in estimator.calls] == ["model.ckpt-2"]


def test_only_directories_that_exports_make_are_removed(tmp_path):
    others = ["123456789", "12345678901", "temp-1000000009", "keep"]
    for name in ["1000000003", "1000000001", "1000000002", *others]:
        (tmp_path / name).mkdir()
    (tmp_path / "1000000001" / "saved_model.pb").write_text("model")
    assert exports_in(str(tmp_path)) == [str(tmp_path / f"100000000{number}") for number in (1, 2, 3)]
    remove_old_exports(str(tmp_path), 2)
    assert names(tmp_path) == sorted([*others, "1000000002", "1000000003"])


def test_a_directory_that_is_not_there_has_no_exports(tmp_path):
    assert exports_in(str(tmp_path / "missing")) == []
    remove_old_exports(str(tmp_path / "missing"), 1)
    assert not (tmp_path / "missing").exists()


def test_an_old_export_that_cannot_be_removed_does_not_end_the_job(tmp_path, caplog):
    (tmp_path / "1000000001").write_text("a file")
    (tmp_path / "1000000002").mkdir()
    remove_old_exports(str(tmp_path), 1)
    assert "the old export" in caplog.text and "cannot be removed" in caplog.text
