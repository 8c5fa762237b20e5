"""Deltas of a training whose ids come and go, and which is resumed on another number of ps."""

from __future__ import annotations

import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.data.pipeline import DataSource
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.export.export import export, prepare_export
from ps_train.saved.values import open_saved
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.vocabularies import Visits


def assert_same(one: str, other: str) -> None:
    readers = [tf.train.load_checkpoint(path) for path in (one, other)]
    kinds = CheckpointValues(one).kinds
    assert kinds == CheckpointValues(other).kinds
    for key in kinds:
        first, second = (np.asarray(reader.get_tensor(key)) for reader in readers)
        assert first.tolist() == second.tolist() if first.dtype == object else first.tobytes() == second.tobytes(), key


@pytest.mark.parametrize("seed", [1, long(2), long(3), long(4)])
def test_checkpoints_and_exports_of_a_history_are_given_back(tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    ids = np.random.default_rng(seed).geometric(0.01, (4000, 2))
    model = Visits(ids, capacity=120, admit_after=1, expire_steps=40, initializer=None)
    checkpoints, exports = [], []
    for _ in range(2):  # the second time it goes on from the newest checkpoint
        fields = {"optimizer": "adagrad", "batch_size": 12, "learning_rate": 0.05, "keep_checkpoints": 10}
        cluster = InProcessCluster(model, chance.choice([1, 2, 3]), 1, tmp_path / "model", **fields)
        (tmp_path / "model").mkdir(exist_ok=True)
        cluster.start(restore=True)
        for _ in range(2):
            cluster.train(chance.randint(5, 40))
            checkpoints.append(cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0])))
            source, folder = DataSource(lambda: model.data("train", "")), prepare_export(str(tmp_path / "export"))
            exports.append(export(model, source, checkpoints[-1], folder))
    for kind, paths in (("checkpoint", checkpoints), ("export", exports)):
        deltas, removed = [], 0
        for number in range(1, len(paths)):
            deltas.append(str(tmp_path / f"{kind}-delta-{number}"))
            manifest = make_delta(open_saved(paths[number - 1]), open_saved(paths[number]), deltas[-1])
            removed += manifest.vocabularies["users"].removed
        assert removed > 5, "ids have left the vocabulary"
        result = apply_deltas(open_saved(paths[0]), deltas, str(tmp_path / f"{kind}-result"))
        assert_same(result.values.path, open_saved(paths[-1]).values.path)
    with pytest.raises(ConfigError, match=r"is what .*export-delta-3 leads to: leave out the deltas up to it"):
        apply_deltas(open_saved(exports[-1]), deltas, str(tmp_path / "again"))
    served = [
        tf.saved_model.load(path).signatures["serving_default"](features=tf.constant(ids[:50]))["outputs"].numpy()
        for path in (exports[-1], str(tmp_path / "export-result"))
    ]
    assert np.abs(served[0]).max() > 0 and served[0].tobytes() == served[1].tobytes()
