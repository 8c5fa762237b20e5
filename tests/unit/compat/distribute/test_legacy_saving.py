"""Paths without a suffix are saved to and loaded from."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.distribute import legacy_saving

X = np.ones((8, 2), "f")


@pytest.fixture(autouse=True)
def installed(replaced):
    legacy_saving._tell.cache_clear()
    legacy_saving.install(replaced)


def fitted(**options):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", keras.losses.MeanSquaredError())
    model.fit(X, X[:, :1], verbose=0, **options)
    return model


def same(model, other):
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])
    return True


@pytest.mark.parametrize("options", [{}, {"save_format": "tf"}, {"include_optimizer": True}, {"overwrite": True}])
def test_a_directory_gets_a_model_that_is_loaded_by_its_name(tmp_path, caplog, options):
    model, path = fitted(), str(tmp_path / "made" / "m")
    model.save(path, **options)
    assert (tmp_path / "made" / "m" / "model.keras").is_file()
    assert same(tf.keras.models.load_model(path), model)
    model.save(path)
    assert [record.message for record in caplog.records if "model.export" in record.message] != []


def test_paths_with_a_suffix_are_as_ever(tmp_path):
    model = fitted()
    for name in ("m.keras", "m.h5"):
        model.save(tmp_path / name)
        assert (tmp_path / name).is_file() and same(keras.models.load_model(tmp_path / name), model)
    tf.keras.models.save_model(model, tmp_path / "old", save_format="h5")
    assert same(keras.models.load_model(tmp_path / "old.h5"), model)


def test_weights_are_found_by_the_name_that_they_were_saved_under(tmp_path):
    model = fitted()
    for name in ("w", "w.h5", "full.weights.h5"):
        model.save_weights(tmp_path / name)
        other = fitted()
        other.load_weights(tmp_path / name)
        assert same(other, model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full.weights.h5", "w.weights.h5"]


def test_checkpoints_of_each_epoch(tmp_path):
    path = str(tmp_path / "ckpt_{epoch}")
    model = fitted(
        epochs=2,
        callbacks=[
            tf.keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
            tf.keras.callbacks.ModelCheckpoint(path, period=1),
        ],
    )
    names = {f"ckpt_{epoch}.{suffix}" for epoch in (1, 2) for suffix in ("keras", "weights.h5")}
    assert {each.name for each in tmp_path.iterdir()} == names
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest == str(tmp_path / "ckpt_2.weights.h5")
    other = fitted()
    other.load_weights(latest)
    assert same(other, model) and same(keras.models.load_model(str(tmp_path / "ckpt_2")), model)
    assert tf.train.latest_checkpoint(str(tmp_path / "absent")) is None
    with pytest.raises(ValueError, match="save_freq"):
        tf.keras.callbacks.ModelCheckpoint(path, period=5)
