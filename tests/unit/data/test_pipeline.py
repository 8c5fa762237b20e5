"""Each replica's share of the data: disjoint, complete, reproducible."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.arrays import Arrays
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import DataSource, derived_seed, evaluation_batches, training_batches

NUMBERS = Arrays(np.arange(23, dtype=np.float32)[:, None] * 10, np.arange(23))


ALONE = DataShard(0, 1)


def run_to_end(make, seed=1, most=100):
    """All batches (features, labels), or the first `most`."""
    with tf.Graph().as_default():
        batches = make()
        with v1.Session() as session:
            session.run(batches.initializer, batches.feeds(seed))
            found = []
            while len(found) < most:
                try:
                    found.append(session.run((batches.features, batches.labels)))
                except tf.errors.OutOfRangeError:
                    break
    return found


def labels_of(data, share=ALONE, batch_size=4, epochs=1, shuffle_buffer=0, **options):
    found = run_to_end(lambda: training_batches(data, share, batch_size, epochs, shuffle_buffer), **options)
    return [labels.tolist() for _, labels in found]


def flat(lists):
    return [item for items in lists for item in items]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shuffle_buffer", [0, 1000])
def test_shares_are_disjoint_and_together_the_data(count, shuffle_buffer):
    shares = [flat(labels_of(NUMBERS, DataShard(i, count), shuffle_buffer=shuffle_buffer)) for i in range(count)]
    assert sorted(flat(shares)) == list(range(23))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_share_does_not_depend_on_the_seed():
    shares = [sorted(flat(labels_of(NUMBERS, DataShard(1, 3), shuffle_buffer=1000, seed=seed))) for seed in (1, 2)]
    assert shares[0] == shares[1] == list(range(1, 23, 3))


def test_features_stay_with_their_labels():
    for features, labels in run_to_end(lambda: training_batches(NUMBERS, DataShard(1, 2), 4, 2, 1000)):
        np.testing.assert_array_equal(features, labels[:, None] * 10)


def test_without_a_shuffle_buffer_the_order_of_the_data_is_kept():
    assert labels_of(NUMBERS, batch_size=10) == [list(range(10)), list(range(10, 20)), [20, 21, 22]]


def test_with_a_shuffle_buffer_the_order_changes():
    found = flat(labels_of(NUMBERS, shuffle_buffer=1000))
    assert sorted(found) == list(range(23))
    assert found != list(range(23))


def test_the_same_seed_gives_the_same_order():
    first, again = (labels_of(NUMBERS, shuffle_buffer=1000, epochs=2, seed=7) for _ in range(2))
    assert first == again


def test_different_seeds_give_different_orders():
    orders = {str(labels_of(NUMBERS, shuffle_buffer=1000, seed=seed)) for seed in (0, 1, 2, derived_seed(1, "x"))}
    assert len(orders) == 4


def test_every_epoch_is_shuffled_anew_and_holds_every_example_once():
    found = flat(labels_of(NUMBERS, shuffle_buffer=1000, epochs=2))
    assert sorted(found[:23]) == sorted(found[23:]) == list(range(23))
    assert found[:23] != found[23:]


def test_the_last_batch_of_an_epoch_is_short():
    assert [len(labels) for labels in labels_of(NUMBERS, batch_size=5)] == [5, 5, 5, 5, 3]


def test_the_last_batch_of_a_share_is_short():
    assert [len(labels) for labels in labels_of(NUMBERS, DataShard(0, 2), batch_size=5)] == [5, 5, 2]


def test_only_the_last_batch_of_several_epochs_is_short():
    assert [len(labels) for labels in labels_of(NUMBERS, batch_size=10, epochs=2)] == [10, 10, 10, 10, 6]


def test_without_a_number_of_epochs_the_data_never_end():
    found = labels_of(NUMBERS, batch_size=23, epochs=0, most=7)
    assert found == [list(range(23))] * 7


@pytest.mark.parametrize("shuffle_buffer", [0, 1000])
@pytest.mark.parametrize("is_array", [True, False])
def test_batches_of_a_known_size_are_those_of_an_unknown_one(is_array, shuffle_buffer):
    """23 examples in batches of 10: the third batch goes on with the first example."""

    def made(of_known_size):
        def make():
            data = NUMBERS if is_array else tf.data.Dataset.from_tensor_slices((NUMBERS.features, NUMBERS.labels))
            batches = training_batches(data, ALONE, 10, 0, shuffle_buffer, of_known_size=of_known_size)
            sizes.append(batches.features.shape[0])
            return batches

        return [labels.tolist() for _, labels in run_to_end(make, most=7)]

    sizes: list[int | None] = []
    assert made(True) == made(False) and sizes == [10, None]


def test_a_share_without_examples_ends_at_once():
    assert labels_of(Arrays(np.zeros(2), np.arange(2)), DataShard(2, 3), shuffle_buffer=1000) == []


def test_features_may_be_a_dict():
    data = Arrays({"id": np.arange(6) * 2, "image": np.ones((6, 2, 2), np.float32)}, np.arange(6))
    found = run_to_end(lambda: training_batches(data, DataShard(1, 2), 2, 1, 1000))
    assert sorted(flat(labels.tolist() for _, labels in found)) == [1, 3, 5]
    for features, labels in found:
        np.testing.assert_array_equal(features["id"], labels * 2)
        assert features["image"].shape == (len(labels), 2, 2)


def test_a_dataset_of_the_same_graph_is_sharded_like_arrays():
    def make():
        dataset = tf.data.Dataset.from_tensor_slices((np.arange(9) * 10, np.arange(9)))
        return training_batches(dataset, DataShard(1, 2), 3, 1, 0)

    assert [labels.tolist() for _, labels in run_to_end(make)] == [[1, 3, 5], [7]]


def test_a_dataset_that_was_made_outside_of_the_graph_is_refused_with_what_to_do():
    dataset = tf.data.Dataset.from_tensor_slices((np.arange(9) * 10, np.arange(9)))
    with tf.Graph().as_default(), pytest.raises(ModelError, match="must make a new"):
        training_batches(dataset, ALONE, 4, 1, 0)


def test_a_source_loads_arrays_once_and_makes_a_dataset_anew_for_each_graph():
    calls = []

    def arrays():
        calls.append("arrays")
        return Arrays(np.zeros(3), np.zeros(3))

    def dataset():
        calls.append("dataset")
        return tf.data.Dataset.from_tensor_slices((np.arange(9), np.arange(9)))

    in_memory, made = DataSource(arrays), DataSource(dataset)
    for _ in range(2):
        with tf.Graph().as_default():
            training_batches(in_memory.get(), ALONE, 4, 1, 0)
            training_batches(made.get(), ALONE, 4, 1, 0)
    assert calls == ["arrays", "dataset", "dataset"]


def test_arrays_are_not_copied_into_the_graph():
    data = Arrays(np.zeros((1000, 100)), np.zeros(1000))
    with tf.Graph().as_default() as graph:
        training_batches(data, ALONE, 4, 1, 1000)
        assert graph.as_graph_def().ByteSize() < 100_000


def test_data_of_another_kind_are_refused_with_what_to_return():
    with tf.Graph().as_default(), pytest.raises(ModelError) as caught:
        training_batches({"features": 1}, ALONE, 4, 1, 0)
    assert "dict" in str(caught.value)
    assert "Arrays" in str(caught.value)
    assert "Dataset" in str(caught.value)


def test_a_dataset_without_labels_is_refused():
    with tf.Graph().as_default(), pytest.raises(ModelError, match=r"\(features, labels\)"):
        training_batches(tf.data.Dataset.range(5), ALONE, 4, 1, 0)


def test_evaluation_sees_every_example_once_and_in_order():
    found = run_to_end(lambda: evaluation_batches(NUMBERS, 10))
    assert [labels.tolist() for _, labels in found] == [list(range(10)), list(range(10, 20)), [20, 21, 22]]


@pytest.mark.parametrize("labels", [np.zeros(5), {"a": np.zeros((5, 2)), "b": np.zeros(5)}])
def test_the_examples_of_a_batch_are_counted_by_its_labels(labels):
    with tf.Graph().as_default(), v1.Session() as session:
        batches = training_batches(tf.data.Dataset.from_tensor_slices((np.zeros(5), labels)), ALONE, 8, 1, 0)
        session.run(batches.initializer, batches.feeds())
        assert session.run(batches.examples) == 5.0


def test_a_derived_seed_depends_on_every_part_and_on_nothing_else():
    assert derived_seed(1, "shuffle", 0) == derived_seed(1, "shuffle", 0)
    parts = [(1, "shuffle", 0), (2, "shuffle", 0), (1, "replica", 0), (1, "shuffle", 1), (1, "shuffle")]
    seeds = {derived_seed(*p) for p in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_endless_batches_go_on_after_the_end_and_stand_for_no_examples():
    data = Arrays(np.arange(5), np.arange(5))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = training_batches(data, ALONE, 2, 1, 0, endless=True)
        session.run(batches.initializer, batches.feeds())
        seen = [session.run((batches.labels, batches.examples)) for _ in range(6)]
    assert [labels.tolist() for labels, _ in seen] == [[0, 1], [2, 3], [4], [0, 1], [0, 1], [0, 1]]
    assert [float(examples) for _, examples in seen] == [2, 2, 1, 0, 0, 0]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_shuffle_buffer_beyond_the_memory_holds_all_examples_of_a_dataset(is_known, monkeypatch):
    monkeypatch.setattr("ps_train.data.pipeline.memory_limit", lambda: 128 * 1024)

    def batches():
        data = tf.data.Dataset.from_tensor_slices((np.arange(50), np.arange(50)))
        return training_batches(data if is_known else data.filter(lambda *_: True), ALONE, 4, 1, 10**17)

    found = [label for _, labels in run_to_end(batches) for label in labels.tolist()]
    assert found != sorted(found) == list(range(50))


def test_inputs_of_two_jobs_of_a_process_are_two_resources() -> None:
    names = []
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            training_batches(Arrays([[1.0]], [1]), DataShard(0, 1), 1, epochs=1, shuffle_buffer=0)
            names += [op.get_attr("shared_name") for op in graph.get_operations() if op.type == "IteratorV2"]
    assert len(set(names)) == 2
