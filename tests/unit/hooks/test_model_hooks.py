"""The hooks of a worker: the model's, then that of dynamic sharding."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import ModelError
from ps_train.hooks.model_hooks import worker_hooks
from ps_train.hooks.shard_progress_hook import ShardProgressHook
from ps_train.model import Model


def of(made):
    return type("Hooked", (Model,), {"hooks": lambda self: made})()


def test_a_model_has_no_hooks_unless_it_says_so():
    assert worker_hooks(Model(), None, None) == []


def test_the_models_hooks_come_first():
    calls = []

    class Own(v1.train.SessionRunHook):
        def begin(self):
            calls.append("begin")

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(run_context)

    with tf.Graph().as_default():
        own, shards = worker_hooks(of((Own(),)), tf.zeros([3], tf.int64), print)
    own.begin()
    assert calls == ["begin"] and own.before_run("loss").fetches == "loss"
    assert own.after_run(None, None) is own.end(None) is own.after_create_session(None, None) is None
    assert isinstance(shards, ShardProgressHook)


def test_a_mistake_in_a_hook_is_told_with_its_place_and_a_lost_ps_passes():
    class Own(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise run_values

    (own,) = worker_hooks(of([Own()]), None, None)
    with pytest.raises(ModelError, match=r"Own\.after_run\(\) raised KeyError: 'loss' \(tests/.*, in after_run: "):
        own.after_run(None, KeyError("loss"))
    with pytest.raises(tf.errors.UnavailableError):
        own.after_run(None, tf.errors.UnavailableError(None, None, "lost"))


def test_a_hook_that_asks_to_stop_is_told_how_a_job_ends():
    class Own(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.request_stop()

    (own,) = worker_hooks(of([Own()]), None, None)
    with pytest.raises(
        ModelError, match=r"Own\.after_run\(\) called request_stop\(\), .*: use --max_steps or --epochs"
    ):
        own.after_run(v1.train.SessionRunContext(None, None), None)


@pytest.mark.parametrize("made", [None, [3], v1.train.SessionRunHook(), [v1.train.SessionRunHook]])
def test_anything_but_a_list_of_hooks_is_refused(made):
    with pytest.raises(ModelError, match=r"hooks\(\) returned .*: return a list of tf.compat.v1.train.SessionRunHook"):
        worker_hooks(of(made), None, None)
