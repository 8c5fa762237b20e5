"""EvalSpec: defaults, values and errors."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.exporter import Exporter, FinalExporter, LatestExporter


def data():
    return 1


class Named(Exporter):
    """An exporter with any name."""

    def __init__(self, name):
        self._name = name

    @property
    def name(self):
        return self._name

    def export(self, *arguments, **named):
        return None


def test_point_21_the_defaults_are_stocks():
    spec = EvalSpec(data)
    assert (spec.steps, spec.name, spec.hooks, spec.exporters) == (100, None, (), ())
    assert (spec.start_delay_secs, spec.throttle_secs) == (120, 600)


def test_point_21_steps_none_means_all_data_and_others_are_positive():
    assert EvalSpec(data, steps=None).steps is None
    for steps in (0, -1):
        with pytest.raises(ValueError, match=f"EvalSpec.steps={steps} is not valid: .* None for all data"):
            EvalSpec(data, steps=steps)


def test_a_spec_holds_its_values_by_position():
    hook, exporter = v1.train.StopAtStepHook(3), Named("a")
    spec = EvalSpec(data, 7, "test", [hook], exporter, 1, 2)
    assert spec == (data, 7, "test", (hook,), (exporter,), 1, 2)


@pytest.mark.parametrize("name", ["throttle_secs", "start_delay_secs"])
def test_point_22_times_are_not_negative(name):
    assert getattr(EvalSpec(data, **{name: 0}), name) == 0
    with pytest.raises(ValueError, match=f"EvalSpec.{name}=-1 is not valid"):
        EvalSpec(data, **{name: -1})


def test_point_22_the_name_is_a_text():
    with pytest.raises(TypeError, match=r"EvalSpec.name=3 is of type int"):
        EvalSpec(data, name=3)


def test_the_input_fn_and_the_hooks_have_their_types():
    with pytest.raises(TypeError, match=r"EvalSpec.input_fn=None cannot be called"):
        EvalSpec(None)
    with pytest.raises(TypeError, match=r"EvalSpec.hooks has 3 of type int"):
        EvalSpec(data, hooks=[3])


def test_point_23_exporters_are_one_or_several():
    one, other = LatestExporter("latest", data), FinalExporter("final", data)
    for given, expected in [
        (None, ()),
        ([], ()),
        (one, (one,)),
        ([one, other], (one, other)),
        ((one, other), (one, other)),
        (iter([one]), (one,)),
    ]:
        assert EvalSpec(data, exporters=given).exporters == expected


@pytest.mark.parametrize("exporters", [3, [3], "latest", [LatestExporter("latest", data), None]])
def test_point_23_other_types_are_refused(exporters):
    with pytest.raises(TypeError, match=r"EvalSpec.exporters has .*: use an Exporter, or several"):
        EvalSpec(data, exporters=exporters)


@pytest.mark.parametrize("name", ["", None, 3])
def test_point_23_an_exporter_has_a_name(name):
    with pytest.raises(ValueError, match=r"EvalSpec.exporters has an exporter with the name .*: use a text"):
        EvalSpec(data, exporters=[Named(name)])


def test_point_23_exporters_have_different_names():
    with pytest.raises(ValueError, match=r"have the names a, b, a: give each exporter a name of its own"):
        EvalSpec(data, exporters=[Named("a"), Named("b"), Named("a")])
