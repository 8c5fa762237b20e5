"""Scopes are left and entered again."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_train.compat.distribute.scopes import outside_scopes
from ps_train.compat.distribute.strategy import ParameterServerStrategy


def test_scopes_are_left_for_the_body_and_entered_again():
    first, second = ParameterServerStrategy(), ParameterServerStrategy()
    with outside_scopes():
        pass
    with first.scope(), first.scope():
        for _ in range(2):
            with outside_scopes():
                assert not tf.distribute.has_strategy()
                with second.scope() as inner:
                    assert tf.distribute.get_strategy() is second is inner
                tf.Variable(1.0)
            assert tf.distribute.get_strategy() is first
        with pytest.raises(ValueError, match="lost"), outside_scopes():
            raise ValueError("lost")
        assert tf.distribute.get_strategy() is first
    assert not tf.distribute.has_strategy()


def test_a_scope_ends_with_an_error():
    strategy = ParameterServerStrategy()
    with pytest.raises(ValueError, match="lost"), strategy.scope():
        raise ValueError("lost")
    assert not tf.distribute.has_strategy()
    with strategy.scope():
        assert tf.distribute.get_strategy() is strategy
