"""The recipes of click-through models find the structure that is hidden in their data, close to its own score."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.models import dcn, din, esmm, multitask, two_tower
from ps_train.models.clicks.synthetic import auc
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long


def recall_of_planted():
    features, logits = two_tower.planted("test")
    better = (logits > np.take_along_axis(logits, features["item"][:, None], 1)).sum(1)
    return {"recall": np.mean(better < two_tower.TOP)}


def auc_of_planted(module):
    _, clicks, logits = module.planted("test")
    return {"auc": auc(clicks, logits)}


def tasks_of_planted():
    _, labels, logits = multitask.planted("test")
    return {f"{task}_auc": auc(labels[task], logits[task]) for task in labels}


def conversions_of_planted():
    _, labels, logits = esmm.planted("test")
    return {"conversion_auc": auc(labels["would_convert"], logits)}


RECIPES = [
    long(two_tower.TwoTower, recall_of_planted, 0.03),
    long(din.Din, lambda: auc_of_planted(din), 0.02),
    long(dcn.Dcn, lambda: auc_of_planted(dcn), 0.02),
    long(multitask.Mmoe, tasks_of_planted, 0.025),
    long(multitask.Ple, tasks_of_planted, 0.025),
    (esmm.Esmm, conversions_of_planted, 0.025),
]


def scored(model, steps=400, num_ps=2, **fields):
    """The metrics of a model after two workers have made so many steps each."""
    cluster = InProcessCluster(model, num_ps, 2, batch_size=128, **fields)
    cluster.start()
    cluster.train(steps)
    return cluster.score()


@pytest.mark.long
@pytest.mark.parametrize(("recipe", "planted", "below"), RECIPES, ids=lambda some: getattr(some, "__name__", ""))
def test_a_recipe_ends_near_the_score_of_the_hidden_model(recipe, planted, below):
    best, found = planted(), scored(recipe())
    for name, score in best.items():
        assert score - below < found[name] < score + 0.01, (name, found, best)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("recipe", "planted", "below"), RECIPES, ids=lambda some: getattr(some, "__name__", ""))
def test_a_synchronous_recipe_ends_there_too(recipe, planted, below):
    best, found = planted(), scored(recipe(), 500, num_ps=1, update="sync")
    for name, score in best.items():
        assert score - below < found[name] < score + 0.01, (name, found, best)


@pytest.mark.long
@pytest.mark.parametrize("recipe", [din.Din, multitask.Mmoe, two_tower.TwoTower])
def test_ragged_features_and_several_labels_train_with_bounded_staleness(recipe):
    found = scored(recipe(), 200, update="bounded")
    least = {"Din": {"auc": 0.8}, "Mmoe": {"click_auc": 0.85, "like_auc": 0.85}, "TwoTower": {"recall": 0.6}}
    for name, score in least[recipe.__name__].items():
        assert found[name] > score, found


@pytest.mark.long
@pytest.mark.parametrize(
    ("simple", "planted", "less"),
    [
        (two_tower.TwoTower(correct=False), recall_of_planted, 0.15),
        (two_tower.TwoTower(hardest=20), recall_of_planted, 0.0),
        (din.Din(attention=False), lambda: auc_of_planted(din), 0.005),
        (dcn.Dcn(layers=0), lambda: auc_of_planted(dcn), 0.005),
    ],
    ids=["uncorrected", "hard", "unattended", "uncrossed"],
)
def test_without_what_a_recipe_shows_the_score_is_lower(simple, planted, less):
    (found,) = (scored(simple)[name] for name in planted())
    (best,) = planted().values()
    assert 0.3 < found < best - less
