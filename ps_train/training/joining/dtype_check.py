"""Check, before any step, that a model computes in the dtype that the job asks for (--compute_dtype)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.user_code import describe, place_of
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import DataSource, training_batches
from ps_train.engine.step.backward import PulledInputs, mean_gradients
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import zeros_variable
from ps_train.modeling.model import Model
from ps_train.modeling.tables.deferred_lookups import FetchedRows, OfVocabularies


def check_compute_dtype(model: Model, job: Job, variables: ModelVariables, source: DataSource) -> None:
    """Builds forward and backward pass of a step in a scratch graph, if the compute dtype is not float32.

    Args:
      model: the user's model.
      job: has the compute dtype and the batch size.
      variables: the variables of the model.
      source: the training data.

    Raises:
      ModelError: the model computes with other dtypes than that of the values it gets.
    """
    if not job.is_mixed:
        return
    name, advice = (
        described(job, "compute_dtype"),
        (
            "use the dtype of the variables, as in tf.cast(features, w.dtype); give Keras layers "
            f"dtype={job.compute_dtype!r}."
        ),
    )
    with tf.Graph().as_default() as graph:
        batches = training_batches(source.get(), WHOLE, job.min_batch_size, epochs=0, shuffle_buffer=0)
        try:
            mean_gradients(model, _inputs(variables, tf.as_dtype(job.compute_dtype)), batches, accumulate=1)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise ModelError(f"with {name} the model raised {describe(error)}: {advice}") from error
        # TensorFlow accepts such a product, but computes it by a slow kernel in float32.
        products = [op for op in graph.get_operations() if op.type == "SparseMatMul"]
        if products := [op for op in products if op.get_attr("Ta") != op.get_attr("Tb")]:
            dtypes = " by ".join(tensor.dtype.name for tensor in products[0].inputs)
            raise ModelError(f"with {name} the model multiplies {dtypes}{place_of(products)}: {advice}")


def _inputs(variables: ModelVariables, dtype: tf.DType) -> PulledInputs:
    """Returns placeholders in the place of pulled values, and variables without values for all others."""
    pulled = variables.dense_trainable()
    specs = {name: variable.spec for name, variable in variables.variables.items() if not variable.table}
    values = {name: v1.placeholder(specs[name].dtype, specs[name].shape) for name in pulled}
    others: dict[str, Any] = {
        name: zeros_variable(f"ps_train/{name}", tf.as_dtype(spec.dtype), spec.shape)
        for name, spec in specs.items()
        if name not in pulled
    }
    step = v1.placeholder_with_default(np.int64(0), [])

    def fetch(requests: Mapping[str, tf.Tensor]) -> dict[str, FetchedRows]:
        tables = variables.tables_by_name()
        return {name: _rows(tables[name].row_shape, tables[name].is_open) for name in requests}

    def draw(name: str, n: int, by_uses: bool) -> list[tf.Tensor]:
        return [v1.placeholder(tf.int64, [None, None])]  # key, weight, sum of weights

    def uses(name: str, keys: tf.Tensor) -> tf.Tensor:
        return v1.placeholder(tf.int64, [None, 2])

    return PulledInputs(values, others, variables, fetch, OfVocabularies(draw, uses), step, dtype)


def _rows(row_shape: Any, is_open: bool) -> FetchedRows:
    known = v1.placeholder(tf.bool, [None]) if is_open else None
    return FetchedRows(v1.placeholder(tf.float32, [None, *row_shape]), v1.placeholder(tf.int32, [None]), known)
