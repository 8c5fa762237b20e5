"""A tf.data.Dataset travels as a graph; its batches, in every process, are those that Keras gets of it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.sent.sent_data import SentData, sent_data
from tests.support.sent_batches import joined, read, read_in_a_child, same

Dataset = tf.data.Dataset
X = np.arange(20, dtype=np.float32).reshape(10, 2)
PAIRS = Dataset.from_tensor_slices((X, {"label": np.arange(10)}))


@pytest.fixture(autouse=True)
def unseeded():
    """Another test may have seeded TensorFlow, and then a shuffle has that seed."""
    tf.random.set_seed(None)


def table():
    initializer = tf.lookup.KeyValueTensorInitializer([0, 1], [5, 6])
    return tf.lookup.StaticHashTable(initializer, -1)


def sets():
    """Datasets that travel, by their names."""
    found, variable = table(), tf.Variable(3)
    plain = Dataset.range(10, output_type=tf.int32)
    return {
        "mapped": PAIRS.map(lambda x, y: (x * 2, y)).batch(4).prefetch(2),
        "shuffled": plain.shuffle(10).batch(4),
        "shuffled with a seed": plain.shuffle(10, seed=3).batch(4),
        "shuffled and repeated": plain.shuffle(10).repeat(2).batch(4),
        "shuffled once": plain.shuffle(10, reshuffle_each_iteration=False).batch(3),
        "shuffled batches": plain.batch(3, drop_remainder=True).shuffle(3),
        "shuffled inside": Dataset.range(2).flat_map(lambda _: Dataset.range(6).shuffle(6)).batch(5),
        "interleaved": Dataset.range(4)
        .interleave(
            lambda i: Dataset.range(5).map(lambda j: i * 10 + j, num_parallel_calls=2, deterministic=False),
            num_parallel_calls=2,
            deterministic=False,
        )
        .batch(5),
        "sampled": Dataset.sample_from_datasets([Dataset.range(5), Dataset.range(10, 15)]).batch(3),
        "table": plain.map(found.lookup).batch(3),
        "variable": plain.map(lambda i: i + variable).batch(3),
        "ragged": Dataset.from_tensor_slices(tf.ragged.constant([[1], [1, 2], [], [4]])).batch(3),
        "cached": plain.cache().shuffle(10).batch(4),
    }


NAMES = sorted(sets())


def values(pairs):
    """Batches as numpy arrays of one structure: ragged ones as their parts."""

    def parts(leaf):
        return (leaf.values, leaf.row_splits) if isinstance(leaf, tf.compat.v1.ragged.RaggedTensorValue) else leaf

    return [([parts(leaf) for leaf in tf.nest.flatten(batch)], examples) for batch, examples in pairs]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ragged"])
def test_parts_of_workers_are_the_batches(name):
    data = sent_data(sets()[name], seed=9)
    steps = 2 * data.steps_per_epoch
    whole = read(data, steps)
    for batch, *pieces in zip(whole, *(read(data, steps, 2, index) for index in range(2)), strict=True):
        assert same(joined(pieces), batch[0])
        assert sum(examples for _, examples in pieces) == batch[1] == len(tf.nest.flatten(batch[0])[0])
    for index in range(2):
        dealt = read(data, 2, 2, index, True)
        assert all(same(one[0], other[0]) for one, other in zip(dealt, whole[index::2], strict=False))


def test_unshuffled_batches_are_the_datasets_own():
    dataset = sets()["mapped"]
    data = sent_data(dataset)
    assert data.steps_per_epoch == 3
    assert data.element_spec[0] == tf.TensorSpec([None, 2], tf.float32)
    for (batch, examples), own in zip(read(data, 3), dataset.as_numpy_iterator(), strict=True):
        assert same(batch, own)
        assert examples == len(own[0])
    assert same(tf.nest.map_structure(np.array, data.first_batch()), next(dataset.as_numpy_iterator()))


def test_a_seed_of_the_user_is_kept():
    dataset = Dataset.range(30).shuffle(30, seed=3).batch(30)
    ours = [batch.tolist() for batch, _ in read(sent_data(dataset), 2)]
    assert ours == [batch.tolist() for batch in dataset.repeat(2).as_numpy_iterator()]


def test_a_shuffle_without_a_seed_follows_the_jobs_and_differs_between_epochs():
    dataset = Dataset.range(30).shuffle(30).batch(30)
    first, second = (batch.tolist() for batch, _ in read(sent_data(dataset, seed=1), 2))
    assert sorted(first) == sorted(second) == list(range(30))
    assert first != second
    assert read(sent_data(dataset, seed=2), 1)[0][0].tolist() != first


def test_two_shuffles_have_orders_of_their_own():
    both = Dataset.zip(Dataset.range(30).shuffle(30), Dataset.range(30).shuffle(30)).batch(30)
    one, other = read(sent_data(both, seed=1), 1)[0][0]
    assert one.tolist() != other.tolist()


def test_ragged_batches_are_cut_by_their_rows():
    data = sent_data(sets()["ragged"])
    pieces = values([read(data, 1, 2, index)[0] for index in range(2)])
    assert [([part.tolist() for part in parts[0]], examples) for parts, examples in pieces] == [
        ([[1], [0, 1]], 1),
        ([[1, 2], [0, 2, 2]], 2),
    ]


def test_sparse_batches_are_cut_by_their_rows():
    dense = np.arange(12).reshape(4, 3) % 2
    dataset = Dataset.from_tensor_slices(tf.sparse.from_dense(dense)).batch(4)
    for index in range(2):
        piece = read(sent_data(dataset), 1, 2, index)[0][0]
        found = tf.sparse.to_dense(tf.SparseTensor(*piece)).numpy()
        assert found.tolist() == dense[2 * index : 2 * index + 2].tolist()


def test_datasets_travel(tmp_path):
    for name in ("mapped", "shuffled", "interleaved", "table", "variable"):
        data = sent_data(sets()[name], seed=9)
        data.write(str(tmp_path / name))
        again = SentData.read(str(tmp_path / name))
        assert again.element_spec == data.element_spec
        assert all(same(one[0], other[0]) for one, other in zip(read(again, 3), read(data, 3), strict=True))
        assert again.steps_per_epoch == data.steps_per_epoch
        tf.nest.assert_same_structure(again.first_batch(), data.first_batch())
    (found,) = read_in_a_child([tmp_path / "shuffled"], 5, 2, 1)
    data = sent_data(sets()["shuffled"], seed=9)
    assert all(same(one[0], other[0]) for one, other in zip(found, read(data, 5, 2, 1), strict=True))


@pytest.mark.parametrize("kind", ["py_function", "numpy_function", "from_generator"])
def test_a_dataset_that_calls_python_is_read_in_its_own_process_alone(tmp_path, kind):
    def plus_one(value):
        return value + 1

    dataset = {
        "py_function": Dataset.range(6).map(lambda i: tf.ensure_shape(tf.py_function(plus_one, [i], tf.int64), [])),
        "numpy_function": Dataset.range(6).map(lambda i: tf.reshape(tf.numpy_function(plus_one, [i], tf.int64), [])),
        "from_generator": Dataset.from_generator(lambda: range(1, 7), output_signature=tf.TensorSpec([], tf.int64)),
    }[kind].batch(4)
    data = sent_data(dataset)
    del dataset
    gc.collect()
    assert [batch.tolist() for batch, _ in read(data, 3)] == [[1, 2, 3, 4], [5, 6], [1, 2, 3, 4]]
    assert [batch.tolist() for batch, _ in read(data, 2, 2, 1)] == [[3, 4], [6]]
    with pytest.raises(DataError, match="a function without arguments that returns the dataset"):
        data.write(str(tmp_path))


def test_a_worker_may_begin_at_any_batch():
    data = sent_data(sets()["shuffled"], seed=9)
    whole = read(data, 12)
    assert same(read(data, 2, start=4)[1][0], whole[5][0])
    for index in range(2):
        found = read(data, 3, 2, index, True, start=3)
        expected = [whole[number] for number in range(3, 9) if number % 2 == index]
        assert all(same(one[0], other[0]) for one, other in zip(found, expected, strict=True))


def test_elements_may_have_none():
    data = sent_data(Dataset.range(4).map(lambda i: (i, None)).batch(4))
    with tf.Graph().as_default():
        (numbers, none), _ = tf.compat.v1.data.make_one_shot_iterator(data.batches(2, 0, False)).get_next()
    assert (numbers.shape.rank, none, data.element_spec[1]) == (1, None, None)


def test_large_arrays_of_a_dataset_are_files_and_not_constants_of_graphs(tmp_path):
    x = np.random.default_rng(0).normal(size=(3000, 100)).astype(np.float32)
    data = sent_data(Dataset.from_tensor_slices((x, np.arange(3000))).batch(1000))
    data.write(str(tmp_path))
    for found in (data, SentData.read(str(tmp_path))):
        with tf.Graph().as_default() as graph:
            found.batches(1, 0, False)
            assert graph.as_graph_def().ByteSize() < 100_000
        assert np.array_equal(np.concatenate([batch[0] for batch, _ in read(found, 3)]), x)
    assert (tmp_path / "dataset.graph").stat().st_size < 100_000


def test_sizes_of_batches_may_vary():
    dataset = Dataset.range(9).batch(4).concatenate(Dataset.range(3).batch(2))
    data = sent_data(dataset)
    assert data.steps_per_epoch == 5
    assert [examples for _, examples in read(data, 5, 2, 0)] == [2, 2, 0, 1, 0]
    assert [examples for _, examples in read(data, 5, 2, 1)] == [2, 2, 1, 1, 1]


def test_an_unknown_number_of_batches_is_counted(caplog):
    caplog.set_level("INFO")
    dataset = Dataset.range(10).filter(lambda i: i != 3).batch(2)
    assert sent_data(dataset).steps_per_epoch == 5
    assert "Counting the batches of the tf.data.Dataset" in caplog.text
    caplog.clear()
    assert sent_data(dataset, steps_per_epoch=7).steps_per_epoch == 7
    assert not caplog.text


def test_a_batch_size_beside_a_dataset_has_no_effect_and_is_said(caplog):
    assert sent_data(Dataset.range(10).batch(2), batch_size=5).first_batch().shape[0] == 2
    assert "batch_size=5 has no effect" in caplog.text


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (ConfigError, "has no end: give fit steps_per_epoch", {"x": Dataset.range(5).repeat().batch(2)}),
        (ConfigError, "y .an argument of fit. is given beside a tf.data.Dataset", {"x": PAIRS.batch(2), "y": X}),
        (ConfigError, "sample_weight .an argument", {"x": PAIRS.batch(2), "sample_weight": X}),
        (DataError, r"single examples.*\.batch", {"x": Dataset.range(5)}),
        (DataError, "has no batches", {"x": Dataset.range(0).batch(2)}),
    ],
)
def test_bad_input_is_refused_in_one_line(error, words, arguments):
    with pytest.raises(error, match=words) as caught:
        sent_data(**arguments)
    assert "\n" not in str(caught.value)
