"""Graphs have their seed and step first; sessions restore, or wait for the chief, without long pauses."""

from __future__ import annotations

import pathlib
import threading
import time

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.sessions import EstimatorSessionCreator, RestoringSessionCreator, estimator_graph
from ps_train.compat.estimator.spec.run_config import RunConfig


def test_a_graph_has_a_seed_and_a_global_step():
    with estimator_graph(RunConfig(tf_random_seed=5)) as graph:
        assert v1.get_default_graph() is graph and graph.seed == 5
        assert v1.train.get_global_step(graph).op.type == "VarHandleOp"
    with estimator_graph(RunConfig()) as graph:
        assert graph.seed is None


def test_a_graph_has_the_device_function_of_a_cluster():
    setter = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")
    with estimator_graph(RunConfig(), setter):
        assert v1.train.get_global_step().device == "/job:ps/task:0"
        assert v1.get_variable("w", [1]).device == "/job:ps/task:1"
        assert tf.constant(1).device == "/job:worker/task:1"


def creator_of(scaffold: v1.train.Scaffold, target: str, directory: pathlib.Path) -> EstimatorSessionCreator:
    return EstimatorSessionCreator(scaffold, target, True, None, str(directory), 0.0)


def test_without_a_checkpoint_values_are_initial_and_with_one_they_are_its_own(tmp_path):
    with estimator_graph(RunConfig()):
        variable = v1.get_variable("w", [], initializer=v1.constant_initializer(3.0))
        assign, saver = variable.assign(4.0), v1.train.Saver()
        scaffold = v1.train.Scaffold(saver=saver)
        with creator_of(scaffold, "", tmp_path).create_session() as session:
            assert session.run(variable) == 3.0
            session.run(assign)
            path = saver.save(session, str(tmp_path / "model.ckpt"))
        for creator in (
            creator_of(scaffold, "", tmp_path),
            RestoringSessionCreator(scaffold, "", None, path, variable),
        ):
            with creator.create_session() as session:
                assert session.run(variable) == 4.0


def test_a_session_after_a_lost_one_keeps_the_variables_unless_they_are_lost_too(tmp_path):
    target = v1.train.Server.create_local_server().target
    with estimator_graph(RunConfig()):
        variable = v1.get_variable("w", [], initializer=v1.constant_initializer(3.0))
        assign, more, saver = variable.assign(4.0), variable.assign_add(1.0), v1.train.Saver()
        creator = creator_of(v1.train.Scaffold(saver=saver), target, tmp_path)
        with creator.create_session() as session:
            saver.save(session, str(tmp_path / "model.ckpt"), global_step=0)
            session.run(assign)
            saver.save(session, str(tmp_path / "model.ckpt"), global_step=1)
            session.run(more)
        with creator.create_session() as session:
            assert session.run(variable) == 5.0
        v1.Session.reset(target)
        with creator.create_session() as session:
            assert session.run(variable) == 4.0, "the newest checkpoint, not that of the start"


def test_an_error_that_is_not_of_the_restoration_stays_as_it_is():
    with estimator_graph(RunConfig()):
        missing = tf.lookup.TextFileInitializer("/absent/words.txt", tf.string, -2, tf.int64, -1)
        tf.lookup.StaticHashTable(missing, -1)
        with pytest.raises(tf.errors.NotFoundError, match="absent/words"):
            RestoringSessionCreator(v1.train.Scaffold(), "", None, None, []).create_session()


def test_a_worker_waits_for_the_variables_and_looks_often():
    target = v1.train.Server.create_local_server().target
    with estimator_graph(RunConfig()) as graph:
        step, init = v1.train.get_global_step(), v1.global_variables_initializer()
        scaffold = v1.train.Scaffold(init_op=init)
        creator = EstimatorSessionCreator(scaffold, target, False, None, None, 60)
        scaffold.finalize()

        def initialize() -> None:
            with v1.Session(target, graph=graph) as session:
                session.run(init)

        begun = time.monotonic()
        timer = threading.Timer(0.5, initialize)
        timer.start()
        with creator.create_session() as session:
            assert session.run(step) == 0
        timer.join(10)
        assert 0.5 < time.monotonic() - begun < 25  # TensorFlow's own creator looks again after 30 seconds


def test_a_worker_does_not_wait_for_ever():
    target = v1.train.Server.create_local_server().target
    with estimator_graph(RunConfig()), pytest.raises(tf.errors.DeadlineExceededError):
        EstimatorSessionCreator(v1.train.Scaffold(), target, False, None, None, 0.1).create_session()
