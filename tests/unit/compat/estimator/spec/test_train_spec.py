"""TrainSpec: values and errors."""

from __future__ import annotations

import functools

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.train_spec import TrainSpec


def data():
    return 1


class Listener(v1.train.CheckpointSaverListener):
    pass


def test_a_spec_holds_its_values():
    hook, listener = v1.train.StopAtStepHook(3), Listener()
    spec = TrainSpec(data, max_steps=5, hooks=[hook], saving_listeners=iter([listener]))
    assert (spec.input_fn, spec.max_steps, spec.hooks, spec.saving_listeners) == (data, 5, (hook,), (listener,))
    assert TrainSpec(input_fn=data)[1:] == (None, (), ())


@pytest.mark.parametrize("input_fn", [lambda: 1, functools.partial(data), type("Callable", (), {"__call__": data})()])
def test_point_19_anything_that_can_be_called_is_an_input_fn(input_fn):
    assert TrainSpec(input_fn).input_fn is input_fn


@pytest.mark.parametrize("input_fn", [None, 1, "data"])
def test_point_19_an_input_fn_that_cannot_be_called_is_refused(input_fn):
    with pytest.raises(TypeError, match=r"TrainSpec.input_fn=.* cannot be called"):
        TrainSpec(input_fn)


@pytest.mark.parametrize("steps", [0, -1])
def test_point_19_max_steps_is_positive_or_none(steps):
    with pytest.raises(ValueError, match=f"TrainSpec.max_steps={steps} is not valid"):
        TrainSpec(data, max_steps=steps)
    assert TrainSpec(data, max_steps=None).max_steps is None


def test_point_20_hooks_and_listeners_have_their_types():
    with pytest.raises(TypeError, match=r"TrainSpec.hooks has .* of type Listener: use objects of .*SessionRunHook"):
        TrainSpec(data, hooks=[v1.train.StopAtStepHook(3), Listener()])
    with pytest.raises(TypeError, match=r"TrainSpec.saving_listeners has .* use objects of .*CheckpointSaverListener"):
        TrainSpec(data, saving_listeners=[v1.train.StopAtStepHook(3)])
