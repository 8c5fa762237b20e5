"""The hooks of a worker: the model's, then that of dynamic sharding."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
from ps_train.engine.step.model_hooks import ModelHooks, ShardProgressHook
from ps_train.modeling.model import Model


def of(made):
    return type("Hooked", (Model,), {"hooks": lambda self: made})()


def test_a_model_has_no_hooks_unless_it_says_so():
    assert ModelHooks(Model(), print).hooks == []


def test_a_hook_begins_once_while_the_graph_is_open_and_ends_with_the_training():
    calls = []

    class Own(v1.train.SessionRunHook):
        def begin(self):
            calls.append("begin")

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(run_context)

        def end(self, session):
            calls.append(session)

    hooks = ModelHooks(of((Own(),)), print)
    (own,) = hooks.hooks
    own.begin()
    assert calls == ["begin"] and own.before_run("loss").fetches == "loss"
    assert own.after_run(v1.train.SessionRunContext(None, None), None) is None
    assert own.after_create_session(None, None) is None
    hooks.close(None)
    for session in ("session", "another"):
        hooks.close(session)
    assert calls == ["begin", "session"]


def test_dynamic_sharding_has_a_hook():
    with tf.Graph().as_default():
        hook = ShardProgressHook(tf.zeros([3], tf.int64), print)
    assert isinstance(hook, ShardProgressHook)


def test_a_mistake_in_a_hook_is_told_with_its_place_and_a_lost_ps_passes():
    class Own(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise run_values

    (own,) = ModelHooks(of([Own()]), print).hooks
    context = v1.train.SessionRunContext(None, None)
    with pytest.raises(ModelError, match=r"Own\.after_run\(\) raised KeyError: 'loss' \(tests/.*, in after_run: "):
        own.after_run(context, KeyError("loss"))
    with pytest.raises(tf.errors.UnavailableError):
        own.after_run(context, tf.errors.UnavailableError(None, None, "lost"))


def test_values_that_a_hook_feeds_are_refused_where_they_would_reach_some_steps_alone():
    class Own(v1.train.SessionRunHook):
        def before_run(self, run_context):
            return v1.train.SessionRunArgs("loss", feed_dict=run_context)

    fed = {"rate": 0.1}
    (own,) = ModelHooks(of([Own()]), print).hooks
    assert own.before_run(fed).feed_dict == fed
    (own,) = ModelHooks(of([Own()]), print, may_feed=False).hooks
    assert own.before_run(None).fetches == "loss"
    with pytest.raises(ConfigError, match="the hook Own feeds values, which with local_steps would reach the last"):
        own.before_run(fed)


def test_a_hook_that_requests_a_stop_ends_the_training_and_not_the_session():
    class Own(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.request_stop()

    told, context = [], v1.train.SessionRunContext(None, None)
    hooks = ModelHooks(of([Own()]), told.append)
    for _ in range(2):
        hooks.hooks[0].after_run(context, None)
    assert told == ["Own"] and hooks.have_ended and not context.stop_requested


@pytest.mark.parametrize(("every_step", "count", "alone"), [(True, 1, True), (False, 1, False), (True, 0, False)])
def test_hooks_run_at_every_step_if_the_model_says_so(every_step, count, alone):
    model = of([v1.train.SessionRunHook()] * count)
    model.hooks_every_step = every_step
    assert ModelHooks(model, print).run_alone == alone


@pytest.mark.parametrize("made", [None, [3], v1.train.SessionRunHook(), [v1.train.SessionRunHook]])
def test_anything_but_a_list_of_hooks_is_refused(made):
    with pytest.raises(ModelError, match=r"hooks\(\) returned .*: return a list of tf.compat.v1.train.SessionRunHook"):
        ModelHooks(of(made), print)
