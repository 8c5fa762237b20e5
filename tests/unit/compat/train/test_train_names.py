"""The public names of ps_train.train."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train import train


def test_names_for_clusters_are_made_right_and_keep_their_kind():
    for name in (
        "Server",
        "SessionManager",
        "StopAtStepHook",
        "Supervisor",
        "SyncReplicasOptimizer",
        "MonitoredSession",
        "SingularMonitoredSession",
    ):
        assert getattr(train, name) is not getattr(v1.train, name)
        assert issubclass(getattr(train, name), getattr(v1.train, name))


@pytest.mark.parametrize("name", sorted(set(dir(v1.train)) - set(train.__all__) - {"experimental"}))
def test_every_other_name_is_tensorflows(name):
    if not name.startswith("_"):
        assert getattr(train, name) is getattr(v1.train, name)


def test_every_name_of_tensorflow_is_shown():
    assert set(dir(train)) >= {name for name in dir(v1.train) if not name.startswith("_")} | set(train.__all__)


def test_an_absent_name_is_refused():
    with pytest.raises(AttributeError, match=r"^ps_train\.train has no 'AdamOptimiser'"):
        _ = train.AdamOptimiser
