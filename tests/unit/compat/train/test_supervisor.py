"""The supervisor in one process; tests/process/test_scripts.py has it in clusters."""

from __future__ import annotations

import inspect

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.supervisor import Supervisor
from ps_train.compat.train.sync_replicas import SyncReplicasOptimizer


def test_a_session_trains_and_the_next_one_goes_on(tmp_path):
    for expected in (3, 6):
        with tf.Graph().as_default():
            step = v1.train.get_or_create_global_step()
            train_op = v1.assign_add(step, 1)
            supervisor = Supervisor(logdir=str(tmp_path), global_step=step, save_summaries_secs=0, save_model_secs=0)
            with supervisor.managed_session() as session:
                for _ in range(3):
                    session.run(train_op)
                supervisor.saver.save(session, supervisor.save_path, global_step=expected)
                assert session.run(step) == expected


def test_synchronous_training_starts_and_ends_with_the_session():
    with tf.Graph().as_default():
        step, weight = (
            v1.train.get_or_create_global_step(),
            v1.get_variable("w", [], initializer=v1.zeros_initializer()),
        )
        optimizer = SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)
        train_op = optimizer.minimize(-weight, global_step=step)
        tokens = optimizer.get_init_tokens_op()
        supervisor = Supervisor(
            global_step=step,
            local_init_op=optimizer.chief_init_op,
            ready_for_local_init_op=optimizer.ready_for_local_init_op,
        )
        with supervisor.prepare_or_wait_for_session() as session:
            session.run(tokens)
            supervisor.start_queue_runners(session, [optimizer.get_chief_queue_runner()])
            for _ in range(3):
                session.run(train_op)
            assert session.run([weight, step]) == [3.0, 3]


def test_arguments_are_tensorflows():
    with tf.Graph().as_default(), pytest.raises(TypeError, match="log_dir"):
        Supervisor(log_dir="x")
    assert issubclass(Supervisor, v1.train.Supervisor)
    assert "logdir" in inspect.signature(v1.train.Supervisor.__init__).parameters
