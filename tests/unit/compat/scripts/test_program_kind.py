"""The kind of a program is found in its text."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.compat.scripts.program_kind import kind_of

TF = "import tensorflow as tf\n"
FIT = "m = tf.keras.Sequential()\nm.fit(x)\n"
PSS = "s = tf.distribute.experimental.ParameterServerStrategy(r)\n"
JOIN = "tf.distribute.Server(c, job_name='ps').join()\n"


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        (TF + "s = tf.distribute.MirroredStrategy()\n", "tf.distribute.MirroredStrategy"),
        (TF + PSS, "tf.distribute.experimental.ParameterServerStrategy"),
        ("from tensorflow.distribute import MirroredStrategy as M\n", "tf.distribute.MirroredStrategy"),
        ("from tensorflow import distribute as d\nd.MirroredStrategy()\n", "tf.distribute.MirroredStrategy"),
        ("import tensorflow.compat.v2 as tf\ntf.distribute.MirroredStrategy\n", "tf.distribute.MirroredStrategy"),
        (TF + "c = tf.distribute.coordinator.ClusterCoordinator(s)\n", "tf.distribute.coordinator.ClusterCoordinator"),
    ],
)
def test_a_program_of_strategies(text, strategy):
    kind = kind_of(["import os\n", text])
    assert (kind.strategy, kind.trains_by_fit, kind.is_of_graphs) == (strategy, True, False)
    with pytest.raises(ConfigError, match=rf"train.py uses {strategy}, .*: leave out --compat"):
        kind.refuse_graphs("train.py")


@pytest.mark.parametrize(
    "text", [TF + FIT, "import keras\nkeras.Model().fit(x)\n", "from keras import Model\nm.fit(x)\n"]
)
def test_a_program_with_a_fit_of_keras(text):
    kind = kind_of([text])
    assert (kind.strategy, kind.trains_by_fit, kind.has_coordinator) == ("", True, False)
    kind.refuse_graphs("train.py")  # graphs have a Keras too


@pytest.mark.parametrize(
    "text",
    [
        "",
        "this is not Python",
        "import numpy as np\nfrom sklearn.linear_model import Ridge\nRidge().fit(x)\n",
        TF + "x = tf.placeholder(tf.float32)\n" + PSS,
        TF + "tf.estimator.RunConfig(train_distribute=tf.distribute.MirroredStrategy())\n" + FIT,
        "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\n" + FIT,
        TF + "import ps_train\nps_train.fit(Net)\n",
    ],
)
def test_another_program(text):
    kind = kind_of([text])
    assert not kind.trains_by_fit and not kind.has_coordinator
    kind.refuse_graphs("train.py")


def test_a_program_with_a_scope_and_old_names_is_neither_refused_nor_left_alone():
    kind = kind_of([TF + PSS + "with s.scope():\n    pass\nif old:\n    tf.Session()\n"])
    assert (kind.trains_by_fit, kind.is_of_graphs) == (True, True)
    kind.refuse_graphs("train.py")


def test_a_coordinator_is_where_ps_and_workers_only_serve():
    assert kind_of([TF + PSS + JOIN]).has_coordinator
    assert kind_of([TF + PSS, TF + JOIN]).has_coordinator
    assert not kind_of([TF + PSS + FIT]).has_coordinator
    assert not kind_of([TF + JOIN + "tf.distribute.MultiWorkerMirroredStrategy()\n"]).has_coordinator
