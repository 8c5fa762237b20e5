"""The hook of --early_stop: when it ends the training, how often it looks, and a metric that is not there."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.observe.progress.early_stop import EarlyStopHook
from tests.support.saved.event_files import write


class Training:
    """Steps with the hook, on a clock of the test's.

    Attributes:
      ended: the names with which the hook has ended the training.
    """

    def __init__(self, directory, text, first_step=1000):
        self.ended, self.time = [], 0.0
        with tf.Graph().as_default():
            step = v1.train.get_or_create_global_step()
            self._train = v1.assign_add(step, 1)
            with tf.control_dependencies([self._train]):
                after = step.read_value()
            hook = EarlyStopHook(text, str(directory), after, self.ended.append, lambda: self.time)
            setter = v1.assign(step, first_step)
            self.session = v1.train.MonitoredSession(hooks=[hook])
            self.session.run_step_fn(lambda step_context: step_context.session.run(setter))

    def run(self, secs=0.0):
        """Makes a step some seconds later; returns True if the hook has ended the training by then."""
        self.time += secs
        self.session.run(self._train)
        return bool(self.ended)


@pytest.mark.parametrize(
    ("text", "values", "ends"),
    [
        ("auc:2", [0.5, 0.7, 0.6], False),
        ("auc:2", [0.5, 0.7, 0.6, 0.7], True),
        ("auc:2", [0.5, 0.7, 0.6, 0.8], False),
        ("-auc:2", [0.5, 0.7, 0.6], True),
        ("logloss:2", [0.5, 0.7, 0.6], True),
        ("logloss:3", [0.5, 0.7, 0.6], False),
    ],
)
def test_a_metric_that_gets_no_better_ends_the_training(tmp_path, text, values, ends):
    name = text.lstrip("-").partition(":")[0]
    write(tmp_path, {10 * number: {name: value, "other": 1.0} for number, value in enumerate(values)})
    training = Training(tmp_path, text)
    with training.session:
        assert training.run() == ends
    assert training.ended == ([f"early_stop={text}"] if ends else [])


def test_before_the_first_evaluation_training_goes_on(tmp_path):
    training = Training(tmp_path / "missing", "auc:1")
    with training.session:
        assert not training.run()


def test_it_looks_every_two_seconds(tmp_path):
    training = Training(tmp_path, "auc:1")
    with training.session:
        assert not training.run()
        write(tmp_path, {1: {"auc": 0.5}, 2: {"auc": 0.4}})
        assert not training.run(1.5)
        assert training.run(0.5)


def test_results_of_later_steps_are_of_another_run(tmp_path):
    write(tmp_path, {10: {"auc": 0.5}, 20: {"auc": 0.4}})
    training = Training(tmp_path, "auc:1", first_step=17)
    with training.session:
        assert not training.run(2)  # step 18
        assert not training.run(2)
        assert not training.run(1)
        assert training.run(2)


def test_results_without_the_metric_are_ignored(tmp_path):
    write(tmp_path, {10: {"auc": 0.5}, 20: {"own": 1.0}, 30: {"auc": 0.6}})
    training = Training(tmp_path, "auc:1")
    with training.session:
        assert not training.run()


def test_a_metric_that_no_evaluation_has_is_refused_in_one_line(tmp_path):
    write(tmp_path, {10: {"auc": 0.5, "loss": 1.0}})
    training = Training(tmp_path, "acc:1")
    with (
        pytest.raises(ConfigError, match=r"early_stop=acc:1: .* no metric acc: use one of auc, loss"),
        training.session,
    ):
        training.run()
