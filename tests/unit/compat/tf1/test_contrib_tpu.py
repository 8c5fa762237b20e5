"""Programs for TPUs that train without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.estimator_spec import ModeKeys
from ps_train.compat.tf1.contrib_hparams import HParams
from ps_train.compat.tf1.contrib_tpu import RunConfig, TPUConfig, TPUEstimator, TPUEstimatorSpec

SIZES = {"train_batch_size": 32, "eval_batch_size": 8}


def made(model_fn: Any = None, **options: Any) -> TPUEstimator:
    return TPUEstimator(model_fn or (lambda features, labels: None), use_tpu=False, **{**SIZES, **options})


def test_settings_of_tpus_are_kept_and_a_cluster_is_refused(tmp_path: Any) -> None:
    config = RunConfig(TPUConfig(iterations_per_loop=7), model_dir=str(tmp_path))
    assert config.tpu_config.iterations_per_loop == 7 and RunConfig().tpu_config == TPUConfig()
    with pytest.raises(ValueError, match="TF_CONFIG describes the cluster"):
        RunConfig(cluster="x")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"use_tpu": True}, "ps_train does not train on TPUs"),
        ({"params": {"batch_size": 3}, "use_tpu": False}, "have 'batch_size': leave it out"),
        ({"params": {"use_tpu": False}, "use_tpu": False}, "have 'use_tpu': leave it out"),
    ],
)
def test_tpus_and_a_second_batch_size_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TPUEstimator(print, **options)


@pytest.mark.parametrize(("mode", "size"), [(ModeKeys.TRAIN, 32), (ModeKeys.EVAL, 8), (ModeKeys.PREDICT, None)])
def test_params_have_the_batch_size_of_the_mode(mode: str, size: int | None) -> None:
    estimator = made()
    expected = {"a": 1, "use_tpu": False, **({"batch_size": size} if size else {})}
    given = {"a": 1}
    assert estimator._with_size(given, mode) == expected and given == {"a": 1}
    hparams = HParams(a=1)
    found = estimator._with_size(hparams, mode)
    assert found.values() == expected and hparams.values() == {"a": 1}


def test_a_spec_makes_metrics_scaffold_and_a_host_call_in_the_graph(run) -> None:
    logits = tf.constant([1.0, -1.0])
    count = v1.get_variable("calls", [], tf.int64, v1.zeros_initializer(), use_resource=True)
    spec = TPUEstimatorSpec(
        ModeKeys.EVAL, loss=tf.constant(0.5),
        eval_metrics=(lambda logits: {"mean": v1.metrics.mean(logits)}, {"logits": logits}),
        host_call=(lambda more: count.assign_add(more[0]), [tf.constant([2], tf.int64)]),
        scaffold_fn=v1.train.Scaffold,
    ).as_estimator_spec()  # fmt: skip
    assert sorted(spec.eval_metric_ops) == ["mean"] and isinstance(spec.scaffold, v1.train.Scaffold)
    (hook,) = spec.evaluation_hooks
    run(count)
    fetches = hook.before_run(None).fetches
    run(fetches)
    assert run(count) == 2 and len(spec.training_hooks) == len(spec.prediction_hooks) == 1
    assert np.isclose(run(spec.loss), 0.5)


def test_without_a_host_call_there_is_no_further_hook(run) -> None:
    spec = TPUEstimatorSpec(ModeKeys.TRAIN, loss=tf.constant(0.5), train_op=tf.no_op()).as_estimator_spec()
    assert not spec.training_hooks and not spec.eval_metric_ops
