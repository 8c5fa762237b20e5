"""The modules of contrib: data, names that are absent."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib import make_contrib


class Estimator:
    """Stands for the module tf.estimator."""

    add_metrics = staticmethod(lambda: "metrics")

    class experimental:
        stop_if_no_decrease_hook = staticmethod(lambda: "hook")

    class ModeKeys:
        TRAIN = "train"


CONTRIB = make_contrib(lambda: Estimator)


def test_names_of_estimator_are_found_there():
    assert CONTRIB.estimator.add_metrics() == "metrics"
    assert CONTRIB.estimator.stop_if_no_decrease_hook() == "hook"
    assert CONTRIB.learn.ModeKeys.TRAIN == "train"


def test_the_global_step_is_tensorflows(run):
    step = CONTRIB.framework.get_or_create_global_step()
    assert CONTRIB.framework.get_global_step() is step
    assert CONTRIB.framework.get_variables() == [step]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("", "tensorrt"),
        ("tpu", "no_such_name"),
        ("opt", "NoSuchOptimizer"),
        ("layers", "no_such_layer"),
        ("estimator", "SVM"),
        ("data", "no_such_transformation"),
    ],
)
def test_an_absent_name_is_refused_in_one_line(module, name):
    owner = getattr(CONTRIB, module) if module else CONTRIB
    with pytest.raises(AttributeError, match=rf"^tf\.contrib\.({module}\.)?{name} is not in this TensorFlow.*: .*\.$"):
        getattr(owner, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tpu.CrossShardOptimizer", "leave it out where use_tpu is False"),
        ("tpu.rewrite", "leave it out where use_tpu is False"),
        ("cluster_resolver.TPUClusterResolver", "describe the cluster in TF_CONFIG"),
        ("distribute.MirroredStrategy", "leave the strategy out"),
        ("opt.ElasticAverageOptimizer", "--local_steps=COMMUNICATION_PERIOD --outer_optimizer=elastic"),
        ("opt.ModelAverageOptimizer", "--local_steps=INTERVAL_STEPS --outer_optimizer=sgd --update=sync"),
        (
            "opt.AGNOptimizer",
            "--outer_optimizer_arg=learning_rate=... is 1/COMMUNICATION_PERIOD",
        ),
        ("seq2seq.BeamSearchDecoder", "tf.nn.dynamic_rnn"),
        ("learn.datasets.DATASETS", "sklearn.datasets.load_iris"),
    ],
)
def test_what_a_program_may_only_have_says_what_to_write_when_it_is_used(name, text):
    value = CONTRIB
    for part in name.split("."):
        value = getattr(value, part)
    value = value["iris"] if isinstance(value, dict) else value
    with pytest.raises(
        NotImplementedError, match=rf"of tf\.contrib|^tf\.contrib\.{name} is not supported: .*\.$"
    ) as used:
        value("anything", use_tpu=True)
    assert text in str(used.value)


def test_a_class_that_may_not_be_used_serves_isinstance_and_subclasses():
    kind = CONTRIB.distribute.MirroredStrategy
    assert not isinstance(3, kind) and issubclass(type("Own", (kind,), {}), kind)


def test_resolvers_of_tensorflow_are_there():
    assert CONTRIB.cluster_resolver.SimpleClusterResolver is v1.distribute.cluster_resolver.SimpleClusterResolver
    assert CONTRIB.tpu.python.tpu.tpu_config.TPUConfig is CONTRIB.tpu.TPUConfig


def test_summaries_go_to_a_writer_by_operations(run, tmp_path):
    summary = CONTRIB.summary
    step = v1.train.get_or_create_global_step()
    with summary.create_file_writer(str(tmp_path)).as_default(), summary.always_record_summaries():
        summary.scalar("loss", tf.constant(0.5), step=step)
        written = summary.all_summary_ops()
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), summary.summary_writer_initializer_op()])
        session.run([written])
    (path,) = tmp_path.glob("events*")
    values = [value for event in v1.train.summary_iterator(str(path)) for value in event.summary.value]
    assert [value.tag for value in values] == ["loss"]
