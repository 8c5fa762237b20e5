"""The names of ps_train.estimator."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator import estimator_names as names


def test_all_names_are_there_and_hooks_are_tensorflows() -> None:
    for name in names.__all__:
        found = getattr(names, name)
        if hasattr(v1.train, name) and name != "StopAtStepHook":
            assert found is getattr(v1.train, name)
    assert issubclass(names.StopAtStepHook, v1.train.SessionRunHook)
    assert names.StopAtStepHook is not v1.train.StopAtStepHook  # it stops all workers of a cluster


def test_another_name_is_refused_with_what_to_do() -> None:
    with pytest.raises(AttributeError, match=r"ps_train\.estimator has no NoSuchName: use another name of its __all__"):
        _ = names.NoSuchName
