"""The click models learn the signal that is planted in synthetic data, and end close to it."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from ps_train.models import criteo
from ps_train.models.clicks.synthetic import write_files
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("clicks")
    write_files(str(directory), lines=6_000)
    return directory


@pytest.mark.parametrize("name", [long("LogisticRegression"), "WideAndDeep", long("DeepFM")])
@pytest.mark.long
def test_a_model_learns_on_two_ps_and_scores_itself(clicks: pathlib.Path, name: str) -> None:
    class Here(getattr(criteo, name)):
        def data(self, split, data_dir):
            return super().data(split, str(clicks))

    cluster = InProcessCluster(Here(buckets=500), 2, 2, batch_size=128)
    cluster.start()
    before = cluster.score()
    cluster.train(60)
    after = cluster.score()
    assert abs(before["auc"] - 0.5) < 0.15 and after["auc"] > 0.7, (before, after)
    assert after["log_loss"] < before["log_loss"] and 0.7 < after["calibration"] < 1.4
    kept = cluster.values()
    slots = {name.rsplit("/", 1)[1] for name in kept if name.startswith("wide/categories/")}
    assert slots == {"Ftrl", "Ftrl_1"}
    assert ("deep/categories/Adagrad" in kept) == (name != "LogisticRegression")


@pytest.mark.long
def test_a_strong_l1_term_keeps_the_weights_of_all_but_few_categories_at_zero(clicks: pathlib.Path) -> None:
    class Sparse(criteo.LogisticRegression):
        def data(self, split, data_dir):
            return super().data(split, str(clicks))

    cluster = InProcessCluster(Sparse(buckets=500, l1=0.5), 1, 1, batch_size=128)
    cluster.start()
    cluster.train(40)
    weights = cluster.values()["wide/categories"]
    assert 0 < np.count_nonzero(weights) < 300, np.count_nonzero(weights)
