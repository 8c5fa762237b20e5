"""The log of a worker's loss scale."""

from __future__ import annotations

import logging

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.training.duties.scaled_loss import LossScaleHook


def test_a_change_of_the_scale_is_logged_once(caplog) -> None:
    caplog.set_level(logging.INFO, "ps_train")
    with tf.Graph().as_default():
        scale = v1.placeholder(tf.float32, [])
        hook = LossScaleHook(scale, "worker:1")
        assert hook.before_run(None).fetches is scale
        for value in (32768.0, 8192.0, 8192.0, 16384.0):
            hook.after_run(None, v1.train.SessionRunValues(value, None, None))
    assert caplog.messages == ["worker:1: loss scale 8192, before 32768", "worker:1: loss scale 16384, before 8192"]
