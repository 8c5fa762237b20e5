"""The modules of contrib: data, names that are absent."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.parametrize("name", ["parallel_interleave", "sloppy_interleave"])
def test_interleaved_data_have_every_element(run, name):
    files = v1.data.Dataset.range(3)
    transform = getattr(CONTRIB.data, name)(lambda n: v1.data.Dataset.from_tensors(n).repeat(2), cycle_length=2)
    batch = v1.data.make_one_shot_iterator(files.apply(transform).batch(6)).get_next()
    assert sorted(run(batch).tolist()) == [0, 0, 1, 1, 2, 2]


def test_data_are_mapped_shuffled_and_repeated(run):
    data = v1.data.Dataset.range(4).apply(CONTRIB.data.shuffle_and_repeat(4, 2))
    batch = v1.data.make_one_shot_iterator(data.apply(CONTRIB.data.map_and_batch(lambda n: n * 10, 8))).get_next()
    assert sorted(run(batch).tolist()) == [0, 0, 10, 10, 20, 20, 30, 30]


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
        ("opt.ElasticAverageOptimizer", "a variable lives once, on a ps"),
        ("opt.ModelAverageOptimizer", "a variable lives once, on a ps"),
        ("opt.AGNOptimizer", "a variable lives once, on a ps"),
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


def test_tables_of_numbers_are_read(tmp_path):
    (tmp_path / "iris.csv").write_text("2,2,a,b\n6.5,3,1\n5,2.5,0\n")
    base = CONTRIB.learn.datasets.base
    found = base.load_csv_with_header(str(tmp_path / "iris.csv"), np.int32, np.float32)
    assert found.data.tolist() == [[6.5, 3], [5, 2.5]] and found.target.tolist() == [1, 0]
    assert found.target.dtype == np.int32 and "mnist" in CONTRIB.learn.datasets.DATASETS
    with pytest.raises(ValueError, match="'nothing'; use one of boston, dbpedia, iris, mnist"):
        CONTRIB.learn.datasets.load_dataset("nothing")
    with pytest.raises(FileNotFoundError, match="get it from http://x"):
        base.maybe_download("no.csv", str(tmp_path), "http://x")


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


@pytest.mark.parametrize(("times", "batch"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_loss_of_sequences(run, times, batch):
    random = np.random.default_rng(1)
    logits, targets = random.normal(size=[2, 3, 4]), np.array([[0, 1, 2], [3, 0, 0]])
    weights = np.array([[1.0, 1, 0], [1, 0.5, 1]])
    loss = CONTRIB.seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights), times, batch)
    logged = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    crossed = -np.take_along_axis(logged, targets[:, :, None], 2)[:, :, 0] * weights
    axes = tuple(axis for axis, averaged in ((0, batch), (1, times)) if averaged)
    np.testing.assert_allclose(run(loss), crossed.sum(axes) / weights.sum(axes) if axes else crossed, rtol=1e-6)


@pytest.mark.parametrize("lengths", [None, [3, 1]])
@pytest.mark.parametrize("use_peephole", [False, True])
def test_the_fused_lstm_is_the_lstm_cell_at_each_position(run, use_peephole, lengths):
    inputs = np.random.default_rng(1).normal(size=[3, 2, 4]).astype(np.float32)  # [positions, batch, values]
    fused = CONTRIB.rnn.LSTMBlockFusedCell(5, use_peephole=use_peephole)
    outputs, (cell, hidden) = fused(tf.constant(inputs), dtype=tf.float32, sequence_length=lengths)
    got = run([outputs, cell, hidden])
    names = {name.partition("/")[2]: value for name, value in run.values().items()}
    kernel, bias = names["kernel"], names["bias"]
    diagonals = [names.get(f"w_{gate}_diag", 0.0) for gate in "ifo"]

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    c = h = np.zeros([2, 5])
    wanted = []
    for t in range(3):
        i, new, f, o = np.split(np.concatenate([inputs[t], h], 1) @ kernel + bias, 4, 1)
        c_now = sigmoid(f + 1 + diagonals[1] * c) * c + sigmoid(i + diagonals[0] * c) * np.tanh(new)
        h_now = sigmoid(o + diagonals[2] * c_now) * np.tanh(c_now)
        live = np.array([[lengths is None or t < length] for length in (lengths or [3, 3])])
        c, h = np.where(live, c_now, c), np.where(live, h_now, h)
        wanted.append(np.where(live, h_now, 0))
    for value, right in zip(got, [np.array(wanted), c, h], strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-5)
