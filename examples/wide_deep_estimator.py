"""A wide and deep model as Estimator programs have it: feature columns, two optimizers, train_and_evaluate.

    python examples/wide_deep_estimator.py --model_dir=/tmp/wide_deep --max_steps=500      # one process
    TF_CONFIG='{...}' python examples/wide_deep_estimator.py --model_dir=...               # a task of a cluster

It predicts from made-up records, like those of a census, whether an income is high.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import estimator as tf_estimator

EDUCATIONS = ["none", "school", "bachelor", "master", "doctor"]
OCCUPATIONS = [f"occupation-{number}" for number in range(40)]
BATCH = 128


def records(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns made-up records and their labels, float32 [count, 1]: 1 for a high income."""
    draw = np.random.default_rng(seed)
    age, hours = draw.integers(18, 80, count), draw.normal(40, 10, count)
    education, occupation = draw.integers(0, 5, count), draw.integers(0, len(OCCUPATIONS), count)
    score = 0.9 * education + 0.05 * (hours - 40) - ((age - 50) / 15.0) ** 2 + 0.8 * np.sin(occupation) - 1.2
    label = draw.random(count) < 1 / (1 + np.exp(-2 * score))
    features = {
        "age": age.astype(np.float32),
        "hours": hours.astype(np.float32),
        "education": np.array(EDUCATIONS)[education],
        "occupation": np.array(OCCUPATIONS)[occupation],
    }
    return features, label.astype(np.float32)[:, None]


def input_fn(count: int, seed: int, repeat: bool) -> Callable[[], tf.data.Dataset]:
    """Returns an input_fn of made-up records in batches."""

    def make() -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_tensor_slices(records(count, seed))
        return dataset.shuffle(1000).repeat().batch(BATCH) if repeat else dataset.batch(BATCH)

    return make


def columns() -> tuple[list[Any], list[Any]]:
    """Returns the columns of the wide part and of the deep part."""
    column = tf.feature_column
    age = column.bucketized_column(column.numeric_column("age"), [25, 35, 45, 55, 65])
    education = column.categorical_column_with_vocabulary_list("education", EDUCATIONS)
    occupation = column.categorical_column_with_hash_bucket("occupation", 1000)
    wide = [age, education, occupation, column.crossed_column([age, "education"], 1000)]
    deep = [
        column.numeric_column("age", normalizer_fn=lambda age: (age - 48.0) / 18.0),
        column.numeric_column("hours", normalizer_fn=lambda hours: (hours - 40.0) / 10.0),
        column.indicator_column(education),
        column.embedding_column(occupation, 8),
        column.embedding_column(column.crossed_column(["education", "occupation"], 5000), 8),
    ]
    return wide, deep


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """Returns a dense layer's outputs, [batch, units]."""
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [inputs.shape[1], units])
        return inputs @ kernel + v1.get_variable("bias", [units], initializer=v1.zeros_initializer())


def model_fn(features: Mapping[str, tf.Tensor], labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """Returns the specification of the model."""
    wide, deep = columns()
    with v1.variable_scope("wide"):
        linear = v1.feature_column.linear_model(dict(features), wide)
    with v1.variable_scope("deep"):
        hidden = v1.feature_column.input_layer(dict(features), deep)
        for number, units in enumerate(params["hidden"]):
            hidden = tf.nn.relu(dense(hidden, units, f"hidden{number}"))
        logits = linear + dense(hidden, 1, "logits")
    probabilities = tf.sigmoid(logits)
    predictions = {"probability": probabilities}
    if mode == tf_estimator.ModeKeys.PREDICT:
        return tf_estimator.EstimatorSpec(mode, predictions)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    metrics = {"auc": v1.metrics.auc(labels, probabilities)}
    if mode == tf_estimator.ModeKeys.EVAL:
        return tf_estimator.EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
    return tf_estimator.EstimatorSpec(mode, predictions, loss, train_op(loss))


def train_op(loss: tf.Tensor) -> tf.Operation:
    """Returns the update: Ftrl for the wide part, Adagrad with a falling rate for the deep part."""
    step = v1.train.get_global_step()
    rate = v1.train.exponential_decay(0.1, step, 1000, 0.9)
    ftrl, adagrad = v1.train.FtrlOptimizer(0.1), v1.train.AdagradOptimizer(rate)
    return tf.group(
        ftrl.minimize(loss, var_list=v1.trainable_variables("wide")),
        adagrad.minimize(loss, step, var_list=v1.trainable_variables("deep")),
    )


def serving_input() -> Any:
    """Returns the inputs of a served model: tf.Example records."""
    wide, deep = columns()
    spec = tf.feature_column.make_parse_example_spec([*wide, *deep])
    return tf_estimator.export.build_parsing_serving_input_receiver_fn(spec)()


def is_better(best_eval_result: Mapping[str, float], current_eval_result: Mapping[str, float]) -> bool:
    """Returns True if the model of an evaluation is better than the best so far."""
    return current_eval_result["auc"] > best_eval_result["auc"]


def main() -> None:
    """Trains and evaluates, as the task that TF_CONFIG names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--max_steps", type=int, default=1000)
    flags = parser.parse_args()
    config = tf_estimator.RunConfig(flags.model_dir, save_checkpoints_steps=max(1, flags.max_steps // 4))
    trained = tf_estimator.Estimator(model_fn, config=config, params={"hidden": [32, 16]})
    best = tf_estimator.BestExporter("best", serving_input, compare_fn=is_better)
    result = tf_estimator.train_and_evaluate(
        trained,
        tf_estimator.TrainSpec(input_fn(20_000, 1, repeat=True), max_steps=flags.max_steps),
        tf_estimator.EvalSpec(
            input_fn(5_000, 2, repeat=False), steps=None, exporters=best, start_delay_secs=0, throttle_secs=0
        ),
    )
    if result is not None and result[0] is not None:
        print(f"auc {result[0]['auc']:.4f}  loss {result[0]['loss']:.4f}  step {result[0]['global_step']}")


if __name__ == "__main__":
    main()
