"""A class of a script has one identity, whatever the name by which the script reaches it."""

from __future__ import annotations

import pathlib

from tests.unit.compat.tf1.test_facade import output_of

CLASSES = """
import inspect
import tensorflow as tf
from tensorflow.python.client import session as client_session
from tensorflow.python.training import basic_session_run_hooks, monitored_session, server_lib, session_manager
from tensorflow.python.training import supervisor, sync_replicas_optimizer, training
from tensorflow.python.training.monitored_session import MonitoredTrainingSession
from tensorflow.python.training.basic_session_run_hooks import SummarySaverHook
homes = [tf.train, tf.estimator, tf.contrib.estimator, basic_session_run_hooks, monitored_session, server_lib,
         session_manager, supervisor, sync_replicas_optimizer, training]
for name in sorted({name for home in homes for name in dir(home) if not name.startswith("_")}):
    found = [getattr(home, name) for home in homes if name in dir(home)]
    classes = [each for each in found if inspect.isclass(each)]
    if any(each.__module__.startswith("ps_train") for each in classes):
        assert all(each is classes[0] for each in classes), name
assert SummarySaverHook is tf.train.SummarySaverHook and MonitoredTrainingSession is tf.train.MonitoredTrainingSession
assert tf.estimator.StopAtStepHook is tf.train.StopAtStepHook is basic_session_run_hooks.StopAtStepHook
with tf.Graph().as_default():
    tf.train.get_or_create_global_step()
    with tf.train.SingularMonitoredSession() as session:
        print(isinstance(session.raw_session(), tf.Session), isinstance(session, tf.Session))
    with client_session.Session() as plain, tf.Session() as own:
        print(isinstance(plain, tf.Session), isinstance(own, tf.Session), isinstance(own, client_session.Session))
        print(issubclass(client_session.Session, tf.Session), issubclass(tf.InteractiveSession, tf.Session))
"""


def test_a_class_has_one_identity_under_all_its_names(tmp_path: pathlib.Path) -> None:
    assert output_of(CLASSES, tmp_path) == ["True False", "True True True", "True False"]
