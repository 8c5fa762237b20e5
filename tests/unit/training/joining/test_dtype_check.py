"""Models that compute in the dtype of their variables, and the errors of models that do not."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import EXIT_CONFIG, ModelError
from ps_train.config.job import Job
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.trace import trace
from ps_train.modeling.model import Model
from ps_train.models.criteo import DeepFM, LogisticRegression, WideAndDeep
from ps_train.models.digits import Digits
from ps_train.training.joining.dtype_check import check_compute_dtype
from tests.support.models.mixed import Normalized, Perceptron
from tests.support.models.small import Linear
from tests.support.models.vocabularies import Visits


def check(model: Model, dtype: str) -> None:
    source = DataSource(lambda: model.data("train", ""))
    check_compute_dtype(model, Job(compute_dtype=dtype), trace(model, source, 8), source)


class SomeCasts(Linear):
    """Casts its features, but adds a constant of float32."""

    def forward(self, features, training):
        w = v1.get_variable("w", [self.width, 1])
        return tf.squeeze(tf.cast(features, w.dtype) @ w, 1) + tf.constant([0.5])


class NoBias(Linear):
    """TensorFlow multiplies float32 by bfloat16, slowly."""

    def forward(self, features, training):
        return tf.squeeze(features @ v1.get_variable("w", [self.width, 1]), 1)


class Decayed(Perceptron):
    """Adds the L2 norm of a variable in the loss, without a cast."""

    def loss(self, outputs, labels):
        return super().loss(outputs, labels) + tf.nn.l2_loss(v1.trainable_variables()[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("model", [Perceptron(), Normalized(), Digits(), WideAndDeep(), DeepFM(), LogisticRegression()])
@pytest.mark.usual(2)
def test_models_that_take_the_dtype_of_their_variables_pass(model: Model, dtype: str) -> None:
    check(model, dtype)


class CastVisits(Visits):
    """Sums rows of an open vocabulary in their own dtype, which it notes."""

    def forward(self, features, training):
        rows = embeddings.lookup("users", features, "sum", **self.declared)
        self.dtype = rows.dtype
        return tf.reduce_sum(rows, 1)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_rows_of_an_open_vocabulary_are_given_in_the_compute_dtype(dtype: tf.DType) -> None:
    model = CastVisits(np.arange(24).reshape(12, 2), capacity=8)
    check(model, dtype.name)
    assert model.dtype == dtype


@pytest.mark.usual(2)
@pytest.mark.parametrize("model", [Linear(), SomeCasts(), Decayed()])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_another_dtype_is_one_line_with_the_place_and_what_to_do(model: Model, dtype: str) -> None:
    with pytest.raises(ModelError) as caught:
        check(model, dtype)
    text = str(caught.value)
    assert text.startswith(f"with compute_dtype={dtype} the model raised ") and "\n" not in text
    assert "use the dtype of the variables, as in tf.cast(features, w.dtype); give Keras layers dtype='" in text
    assert ".py, line " in text and caught.value.exit_code == EXIT_CONFIG
    check(model, "float32")


def test_a_product_of_two_dtypes_that_tensorflow_accepts_is_refused() -> None:
    with pytest.raises(ModelError, match=r"multiplies float32 by bfloat16 \(.*test_dtype_check.py, line .*w.dtype\)"):
        check(NoBias(), "bfloat16")
    check(NoBias(), "float32")


def test_an_error_of_the_package_passes_through() -> None:
    class Changing(Perceptron):
        calls = 0

        def forward(self, features, training):
            Changing.calls += 1
            return super().forward(features, training) * v1.get_variable(f"w{Changing.calls}", [])

    with pytest.raises(ModelError, match="which it did not make at its first call"):
        check(Changing(), "bfloat16")
