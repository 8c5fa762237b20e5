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
    own = v1.train.SessionRunHook()
    with tf.Graph().as_default():
        found = worker_hooks(of((own,)), tf.zeros([3], tf.int64), print)
    assert found[0] is own and isinstance(found[1], ShardProgressHook) and len(found) == 2


@pytest.mark.parametrize("made", [None, [3], v1.train.SessionRunHook(), [v1.train.SessionRunHook]])
def test_anything_but_a_list_of_hooks_is_refused(made):
    with pytest.raises(ModelError, match=r"hooks\(\) returned .*: return a list of tf.compat.v1.train.SessionRunHook"):
        worker_hooks(of(made), None, None)
