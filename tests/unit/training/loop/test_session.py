"""The session of a training task is made once: a loss is told, and no second one is made in silence."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import LostConnectionError, SessionGroup
from ps_train.training.loop import session as module
from ps_train.training.loop.session import ClusterSessions, monitored_training_session


class Hook(v1.train.SessionRunHook):
    def __init__(self, name: str, calls: list[str]) -> None:
        self._name, self._calls = name, calls

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._calls.append(self._name)


def sessions() -> ClusterSessions:
    return ClusterSessions("", v1.ConfigProto())


def test_the_model_is_prepared_before_the_hooks_which_keep_their_order() -> None:
    calls: list[str] = []
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()

        def prepare(session: v1.Session) -> None:
            session.run(step.initializer)
            calls.append("prepare")

        found = monitored_training_session(sessions(), [Hook("a", calls), Hook("b", calls)], prepare)
        assert found.run(step) == 0 and calls == ["prepare", "a", "b"]
        found.close()


@pytest.mark.parametrize("error", [tf.errors.UnavailableError(None, None, "Socket closed\nmore")])
def test_a_ps_that_is_lost_meanwhile_is_told_at_once(error: Exception) -> None:
    tries: list[int] = []

    def prepare(session: v1.Session) -> None:
        tries.append(1)
        raise error

    with tf.Graph().as_default(), pytest.raises(LostConnectionError, match="Socket closed"):
        monitored_training_session(sessions(), [], prepare)
    assert len(tries) == 1


def test_a_second_session_is_refused_and_one_that_failed_is_made_again() -> None:
    left = [KeyError("not yet")]

    def prepare(session: v1.Session) -> None:
        if left:
            raise left.pop()

    with tf.Graph().as_default():
        tf.no_op()
        creator = module._TrainingSessionCreator(sessions(), prepare)
        with pytest.raises(KeyError):
            creator.create_session()
        creator.create_session()
        with pytest.raises(LostConnectionError, match="its connection broke"):
            creator.create_session()


def test_sessions_of_other_graphs_are_kept_and_share_the_group() -> None:
    found, before = sessions(), len(module._never_closed)
    with tf.Graph().as_default() as graph:
        one = tf.constant(1)
    opened = found.open(graph)
    assert opened.run(one) == 1 and module._never_closed[before:] == [opened]
    module._never_closed.remove(opened)
    assert isinstance(found.group, SessionGroup) and sessions().group is not found.group
