"""The end of a run: result.json, and how to resume."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from ps_train.base.errors import DataError, SaveError
from ps_train.config import tracker_check as trackers
from ps_train.config.job import Job
from ps_train.data.split import no_rows
from ps_train.observe.status.run_end import advice, check_trained, metrics_line, read_result_step, write_result


def test_the_result_replaces_the_one_before_and_its_step_is_read(tmp_path: pathlib.Path) -> None:
    assert read_result_step(str(tmp_path)) is None
    for step in (10, 20):
        path = write_result(str(tmp_path), {"global_step": step})
        assert json.loads(pathlib.Path(path).read_text()) == {"global_step": step}
        assert read_result_step(str(tmp_path)) == step
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_metrics_are_one_line() -> None:
    assert metrics_line({"accuracy": 0.94171, "loss": 0.18734}) == "accuracy 0.9417  loss 0.1873"


def test_the_advice_names_the_directories_in_a_form_for_the_shell() -> None:
    resume, look, serve = advice("/my models/m", "", 200)
    assert "--model_dir='/my models/m'" in resume and "--max_steps above 200" in resume
    assert look.endswith("tensorboard --logdir='/my models/m'")
    assert "--export_dir=DIR" in serve
    assert advice("/m", "/exported", 200)[2].endswith("tensorflow_model_server --model_base_path=/exported")


def test_a_call_from_python_gets_arguments_in_the_place_of_flags() -> None:
    resume, _, serve = advice("/my models/m", "", 200, is_call=True)
    assert resume == "to resume: the same call with model_dir='/my models/m' and max_steps above 200"
    assert serve == "to serve:  the same call with model_dir='/my models/m' and export_dir='DIR' writes a SavedModel"


def test_tensorboard_is_recommended_with_its_installation_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "is_installed", lambda name: name != "tensorboard")
    _, look, _ = advice("/m", "", 200)
    assert look == "to look:   pip install '.[tensorboard]' in a clone of ps_train, then tensorboard --logdir=/m"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_result_that_cannot_be_written_is_an_error_with_its_path(tmp_path):
    (tmp_path / "result.json.new").symlink_to("/dev/full")
    with pytest.raises(SaveError, match=r"result.json could not be written \(No space left on device\)"):
        write_result(str(tmp_path), {"global_step": 3})


def test_a_topic_without_a_row_between_its_start_and_its_end_is_named() -> None:
    job = Job(sharding="dynamic")
    with pytest.raises(DataError, match="clicks had no rows between its start and its end"):
        check_trained(job, no_rows("clicks"), gave_up="", steps=0, examples=0.0)
    check_trained(job, no_rows("clicks"), gave_up="", steps=0, examples=8.0)  # a resumed job
