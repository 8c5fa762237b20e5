"""The hyperparameters of a run in TensorBoard's form."""

from __future__ import annotations

import pytest

from ps_train.observe.tracking.hparams_tracker import HparamsTracker
from ps_train.observe.tracking.tracked_run import TrackedRun

plugin_data = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")


def started(**fields):
    """What TensorBoard gets at the beginning of a run."""
    summaries = []
    run = TrackedRun("4f1c", fields.pop("name", "model"), "/d", {}, {}, {"learning_rate": 0.1}, "", **fields)
    HparamsTracker(lambda summary, step: summaries.append(summary)).begin(run)
    ((value,),) = [summary.value for summary in summaries]
    return plugin_data.HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info


def test_an_execution_of_a_study_has_the_number_of_its_trial():
    found = started(name="0007/1/model", parent="clicks", trial=7)
    assert found.hparams["trial"].number_value == 7 and found.hparams["learning_rate"].number_value == 0.1
    assert found.group_name == "clicks 0007/1"


def test_another_run_has_none():
    found = started()
    assert "trial" not in found.hparams and found.group_name == "4f1c"
