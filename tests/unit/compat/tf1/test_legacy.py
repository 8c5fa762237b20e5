"""Parts of TensorFlow 1 in other packages: without a package, one line says what to install."""

from __future__ import annotations

import importlib.util

import pytest

from ps_train.compat.tf1 import legacy
from ps_train.compat.tf1.contrib import make_contrib
from tests.support.compat.tf1_refusals import refused

CONTRIB = make_contrib(lambda: None)


@pytest.fixture
def missing(monkeypatch):
    """Hides packages."""
    names = set()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in names else find(name, *rest))
    return names


def test_without_tf_keras_a_cell_and_a_layer_say_what_to_install(missing):
    missing.add("tf_keras")
    with pytest.raises(
        legacy.NotInstalledError,
        match=r"^tf\.layers\.Dense comes with tf-keras.*pip install '\.\[compat\]' in a clone of ps_train\.$",
    ):
        legacy.name("layers", "Dense")
    line = f"tf.nn.rnn_cell.GRUCell comes with tf-keras, which is not installed: {legacy.INSTALL}."
    assert refused("rnn.GRUCell", rnn=CONTRIB.rnn) == line
    assert not legacy.is_installed()


def test_without_tf_slim_its_names_say_what_to_install(missing):
    missing.add("tf_slim")
    for code in ("contrib.slim", "contrib.layers.separable_conv2d", "contrib.metrics.streaming_covariance"):
        line = refused(code, contrib=CONTRIB)
        assert line.startswith(f"tf.{code} is not in this TensorFlow") and "pip install '.[compat]'" in line


def test_tf_slim_without_tf_keras_says_so(missing):
    pytest.importorskip("tf_slim")
    missing.add("tf_keras")
    assert "tf-slim needs tf-keras, which is not installed" in refused("contrib.slim", contrib=CONTRIB)


def test_a_name_that_a_package_lacks_is_refused_by_the_facade():
    pytest.importorskip("tf_slim")
    pytest.importorskip("tf_keras")
    with pytest.raises(AttributeError):
        legacy.name("rnn_cell", "NASCell")
    assert "use tf.metrics" in refused("contrib.metrics.no_such_metric", contrib=CONTRIB)
    assert legacy.slim("layer_norm", "layers").__module__ == "tf_slim.layers.layers"
