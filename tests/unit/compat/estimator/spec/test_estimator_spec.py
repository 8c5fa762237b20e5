"""EstimatorSpec: required values, their checks in a graph, and checked copies."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.export_outputs import PredictOutput

TRAIN, EVAL, PREDICT = ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT
HOOKS = ["training_chief_hooks", "training_hooks", "evaluation_hooks", "prediction_hooks"]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def value(number=1.0):
    return tf.constant(number)


def given(mode):
    """Everything that any mode needs."""
    return {"mode": mode, "loss": value(), "train_op": tf.no_op(), "predictions": {"p": value([1.0, 2.0])}}


def test_the_modes_have_stocks_values():
    assert (TRAIN, EVAL, PREDICT) == ("train", "eval", "infer")


def test_the_signature_and_the_order_of_the_fields_are_stocks():
    names = ["mode", "predictions", "loss", "train_op", "eval_metric_ops", "export_outputs", "training_chief_hooks"]
    names += ["training_hooks", "scaffold", "evaluation_hooks", "prediction_hooks"]
    assert list(inspect.signature(EstimatorSpec).parameters) == names == list(EstimatorSpec._fields)
    loss = value()
    spec = EstimatorSpec(EVAL, {"p": value()}, loss)
    assert spec.loss is loss and spec.mode == EVAL
    with pytest.raises(TypeError):
        EstimatorSpec(EVAL, loss=loss, no_such_name=1)


@pytest.mark.parametrize(
    ("mode", "missing"), [(TRAIN, "loss"), (TRAIN, "train_op"), (EVAL, "loss"), (PREDICT, "predictions")]
)
def test_point_51_each_mode_needs_its_values(mode, missing):
    with pytest.raises(ValueError, match=f"EstimatorSpec.{missing} is missing with mode='{mode}'"):
        EstimatorSpec(**{**given(mode), missing: None})


@pytest.mark.parametrize(
    ("mode", "needed"), [(TRAIN, ["loss", "train_op"]), (EVAL, ["loss"]), (PREDICT, ["predictions"])]
)
def test_point_51_each_mode_needs_no_more(mode, needed):
    all_of_it = given(mode)
    spec = EstimatorSpec(mode, **{name: all_of_it[name] for name in needed})
    assert spec.scaffold is not None and spec.eval_metric_ops == {}
    assert spec.predictions == ({"p": all_of_it["predictions"]["p"]} if mode == PREDICT else {})
    assert [getattr(spec, name) for name in HOOKS] == [(), (), (), ()]
    assert (spec.export_outputs is None) == (mode != PREDICT)


def test_point_52_a_loss_of_one_element_becomes_a_scalar(graph):
    spec = EstimatorSpec(EVAL, loss=value([2.5]))
    assert spec.loss.shape.rank == 0
    with v1.Session(graph=graph) as session:
        assert session.run(spec.loss) == 2.5


def test_point_52_a_loss_of_unknown_shape_stays():
    loss = v1.placeholder(tf.float32)
    assert EstimatorSpec(EVAL, loss=loss).loss is loss


@pytest.mark.parametrize("loss", [3.0, np.float32(3), "loss", [3.0]])
def test_point_52_a_loss_is_a_tensor(loss):
    with pytest.raises(TypeError, match=r"EstimatorSpec.loss=.*: use a Tensor"):
        EstimatorSpec(EVAL, loss=loss)


def test_point_52_a_loss_per_example_is_refused():
    with pytest.raises(ValueError, match=r"EstimatorSpec.loss=\w+:0 has the shape \(2,\): use a scalar"):
        EstimatorSpec(EVAL, loss=value([1.0, 2.0]))


def foreign(make):
    with tf.Graph().as_default():
        return make()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("loss", value),
        ("loss", lambda: value([1.0])),
        ("train_op", tf.no_op),
        ("train_op", value),
        ("predictions", value),
        ("predictions", lambda: {"p": value()}),
        ("eval_metric_ops", lambda: {"m": (value(), tf.no_op())}),
    ],
)
def test_point_52_values_of_another_graph_are_refused(name, make):
    with pytest.raises(ValueError, match=rf"EstimatorSpec.{name}.* is of another graph"):
        EstimatorSpec(**{**given(TRAIN), name: foreign(make)})


@pytest.mark.parametrize("train_op", [3, "train", [tf.constant]])
def test_a_train_op_is_an_operation_or_a_tensor(train_op):
    with pytest.raises(TypeError, match=r"EstimatorSpec.train_op=.*: use a Tensor"):
        EstimatorSpec(**{**given(TRAIN), "train_op": train_op})


def test_a_train_op_may_be_a_tensor_or_a_variable():
    tensor, variable = value(), v1.get_variable("v", [])
    assert EstimatorSpec(**{**given(TRAIN), "train_op": tensor}).train_op is tensor
    assert EstimatorSpec(**{**given(TRAIN), "train_op": variable}).train_op is variable.op


def test_predictions_are_tensors():
    one = value()
    assert EstimatorSpec(PREDICT, predictions=one).predictions is one
    for wrong in (3, {"p": 3}, [one]):
        with pytest.raises(TypeError, match=r"EstimatorSpec.predictions.*: use a Tensor"):
            EstimatorSpec(PREDICT, predictions=wrong)


@pytest.mark.parametrize("name", HOOKS)
def test_point_53_hooks_are_session_run_hooks(name):
    hook = v1.train.StopAtStepHook(3)
    assert getattr(EstimatorSpec(**given(TRAIN), **{name: [hook]}), name) == (hook,)
    with pytest.raises(TypeError, match=rf"EstimatorSpec.{name} has 3 of type int"):
        EstimatorSpec(**given(TRAIN), **{name: [hook, 3]})


def test_point_53_the_scaffold_is_one():
    scaffold = v1.train.Scaffold()
    assert EstimatorSpec(**given(TRAIN), scaffold=scaffold).scaffold is scaffold
    assert isinstance(EstimatorSpec(**given(TRAIN)).scaffold, v1.train.Scaffold)
    with pytest.raises(TypeError, match=r"EstimatorSpec.scaffold=3 is of type int"):
        EstimatorSpec(**given(TRAIN), scaffold=3)


def test_point_53_replace_checks_again():
    spec = EstimatorSpec(**given(TRAIN), eval_metric_ops={"m": (value(), tf.no_op())})
    changed = spec._replace(loss=value([2.0]))
    assert isinstance(changed, EstimatorSpec) and changed.loss.shape.rank == 0
    assert changed.train_op is spec.train_op and changed.eval_metric_ops == spec.eval_metric_ops
    assert spec._replace(mode=TRAIN) == spec
    with pytest.raises(ValueError, match=r"EstimatorSpec.train_op is missing"):
        spec._replace(train_op=None)
    with pytest.raises(ValueError, match="mode='eval' cannot replace 'train'"):
        spec._replace(mode=EVAL)


def test_point_53_a_spec_for_predictions_can_be_replaced():
    spec = EstimatorSpec(PREDICT, predictions={"p": value()}, export_outputs={"own": PredictOutput({"p": value()})})
    other = value()
    changed = spec._replace(predictions={"q": other})
    assert changed.predictions == {"q": other} and changed.export_outputs == spec.export_outputs


@pytest.mark.parametrize("metrics", [3, [("m", 3)], {"m": 3}, {"m": (3,)}, {"m": [1, 2]}, {"m": (1, 2, 3)}])
def test_point_54_metrics_are_pairs_by_name(metrics):
    with pytest.raises(TypeError, match=r"EstimatorSpec.eval_metric_ops.*\(value, update_op\)"):
        EstimatorSpec(**given(EVAL), eval_metric_ops=metrics)


def test_point_54_metrics_of_tensorflow_are_accepted():
    mean = v1.metrics.mean(value([1.0, 3.0]))
    assert EstimatorSpec(**given(EVAL), eval_metric_ops={"mean": mean}).eval_metric_ops == {"mean": mean}


def test_point_55_without_outputs_the_predictions_are_exported():
    spec = EstimatorSpec(**given(PREDICT))
    assert list(spec.export_outputs) == ["serving_default"]
    assert isinstance(spec.export_outputs["serving_default"], PredictOutput)
    assert spec.export_outputs["serving_default"].outputs == spec.predictions


def test_point_55_a_single_output_is_the_default_one_too():
    output = PredictOutput({"p": value()})
    own = {"own": output}
    spec = EstimatorSpec(**given(PREDICT), export_outputs=own)
    assert spec.export_outputs == {"own": output, "serving_default": output}
    assert own == {"own": output}
    default = EstimatorSpec(**given(PREDICT), export_outputs={"serving_default": output})
    assert default.export_outputs == {"serving_default": output}


def test_point_55_of_several_outputs_one_is_the_default():
    outputs = {"a": PredictOutput({"p": value()}), "b": PredictOutput({"p": value()})}
    with pytest.raises(ValueError, match="has the names a, b: name the default one 'serving_default'"):
        EstimatorSpec(**given(PREDICT), export_outputs=outputs)
    outputs["serving_default"] = outputs.pop("b")
    assert EstimatorSpec(**given(PREDICT), export_outputs=outputs).export_outputs == outputs


@pytest.mark.parametrize("outputs", [3, [3], {"a": 3}])
def test_point_55_outputs_are_export_outputs_by_name(outputs):
    with pytest.raises(TypeError, match=r"EstimatorSpec.export_outputs.*: use a"):
        EstimatorSpec(**given(PREDICT), export_outputs=outputs)


def test_point_55_outputs_are_checked_for_predictions_only():
    assert EstimatorSpec(**given(TRAIN), export_outputs={"a": 3}).export_outputs == {"a": 3}


def test_values_of_eager_mode_are_accepted():
    with tf.__internal__.eager_context.eager_mode():
        spec = EstimatorSpec(ModeKeys.EVAL, loss=tf.constant([2.0]), predictions={"p": tf.constant(1.0)})
        assert float(spec.loss) == 2.0 and spec.loss.shape == []
        with pytest.raises(TypeError, match=r"EstimatorSpec.loss=3 is of type int"):
            EstimatorSpec(ModeKeys.EVAL, loss=3)
        with pytest.raises(ValueError, match="has the shape"):
            EstimatorSpec(ModeKeys.EVAL, loss=tf.constant([2.0, 3.0]))
