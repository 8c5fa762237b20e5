"""Each kind of output gives its signature, and refuses what cannot be served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.export_outputs import ClassificationOutput, PredictOutput, RegressionOutput

CONSTANTS = v1.saved_model.signature_constants


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def floats() -> tf.Tensor:
    return tf.ones([3, 2])


def texts() -> tf.Tensor:
    return tf.constant([["a", "b"]] * 3)


def examples() -> dict[str, Any]:
    return {"examples": v1.placeholder(tf.string, [None], "in")}


def test_a_prediction_has_named_outputs():
    output = PredictOutput({"a": floats(), ("b", "c"): texts()})
    signature = output.as_signature_def({"x": v1.placeholder(tf.float32, [None], "in")})
    assert signature.method_name == CONSTANTS.PREDICT_METHOD_NAME
    assert sorted(signature.outputs) == sorted(output.outputs) == ["a", "b/c"]
    assert signature.inputs["x"].name == "in:0"


def test_a_single_prediction_is_named_output():
    assert list(PredictOutput(floats()).outputs) == ["output"]


@pytest.mark.parametrize("outputs", [{1: 2.0}, {"a": 2.0}, {"a": None}])
def test_a_prediction_of_something_else_is_refused(outputs):
    with pytest.raises(ValueError, match="must be a"):
        PredictOutput(outputs)


@pytest.mark.parametrize(
    ("scores", "classes", "names"),
    [(floats, None, ["scores"]), (None, texts, ["classes"]), (floats, texts, ["classes", "scores"])],
)
def test_a_classification_has_scores_and_classes(scores, classes, names):
    output = ClassificationOutput(scores and scores(), classes and classes())
    signature = output.as_signature_def(examples())
    assert signature.method_name == CONSTANTS.CLASSIFY_METHOD_NAME
    assert sorted(signature.outputs) == names and list(signature.inputs) == ["inputs"]


@pytest.mark.parametrize(
    ("scores", "classes", "text"),
    [(None, None, "neither"), (texts, None, "floats"), (None, floats, "strings"), (lambda: 3.0, None, "a tensor")],
)
def test_a_classification_of_something_else_is_refused(scores, classes, text):
    with pytest.raises(ValueError, match=text):
        ClassificationOutput(scores and scores(), classes and classes())


def test_a_regression_has_a_value():
    signature = RegressionOutput(floats()).as_signature_def(examples())
    assert signature.method_name == CONSTANTS.REGRESS_METHOD_NAME and list(signature.outputs) == ["outputs"]


def test_a_regression_of_something_else_is_refused():
    with pytest.raises(ValueError, match="floats"):
        RegressionOutput(texts())
    with pytest.raises(ValueError, match="a tensor"):
        RegressionOutput(3.0)


@pytest.mark.parametrize("kind", [RegressionOutput, ClassificationOutput])
def test_a_regression_and_a_classification_take_examples_alone(kind):
    output = kind(floats())
    for inputs in ({"x": floats()}, {**examples(), "y": texts()}):
        with pytest.raises(ValueError, match="takes one string tensor of examples"):
            output.as_signature_def(inputs)
