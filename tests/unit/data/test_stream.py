"""A Stream divides itself; repeating, shuffling, batching and the end are the same as for Arrays."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import DataSource, evaluation_batches, training_batches
from ps_train.data.stream import Stream, assertion, data_error, pipeline_error

ALONE = DataShard(0, 1)


class Numbers(Stream):
    """0 .. count - 1, in chunks whose length has nothing to do with a batch; features are ten times the label."""

    def __init__(self, count=23, chunk=5):
        self.count, self.chunk = count, chunk

    def chunks(self, share, seed):
        numbers = tf.data.Dataset.range(share.index, self.count, share.count)
        if seed is not None:
            numbers = numbers.shuffle(self.count, seed=seed)
        return numbers.batch(self.chunk).map(lambda number: ({"x": number[:, None] * 10}, number))


class Fails(Stream):
    def chunks(self, share, seed):
        def read(number):
            if number == 2:
                raise pipeline_error("the third number is wrong: use another.")
            return number

        numbers = tf.data.Dataset.range(5).map(lambda n: tf.ensure_shape(tf.numpy_function(read, [n], tf.int64), []))
        return numbers.batch(1).map(lambda n: (n, n))


def run_to_end(make, seed=1, most=100):
    with tf.Graph().as_default():
        batches = make()
        with v1.Session() as session:
            session.run(batches.initializer, batches.feeds(seed))
            found = []
            while len(found) < most:
                try:
                    found.append(session.run((batches.features, batches.labels, batches.examples)))
                except tf.errors.OutOfRangeError:
                    break
    return found


def labels_of(data=None, share=ALONE, batch_size=4, epochs=1, shuffle_buffer=0, endless=False, **options):
    def make():
        return training_batches(data or Numbers(), share, batch_size, epochs, shuffle_buffer, endless)

    return [labels.tolist() for _, labels, _ in run_to_end(make, **options)]


def flat(lists):
    return [item for items in lists for item in items]


@pytest.mark.parametrize("shuffle_buffer", [0, 4, 1000])
@pytest.mark.parametrize("batch_size", [1, 4, 5, 100])
def test_batches_have_the_asked_size_whatever_the_chunks(batch_size, shuffle_buffer):
    found = labels_of(batch_size=batch_size, shuffle_buffer=shuffle_buffer)
    assert sorted(flat(found)) == list(range(23))
    assert {len(batch) for batch in found[:-1]} <= {batch_size}
    assert len(found[-1]) == (23 % batch_size or batch_size)


def test_without_a_shuffle_buffer_the_order_is_kept():
    assert labels_of(batch_size=10) == [list(range(10)), list(range(10, 20)), [20, 21, 22]]


def test_the_stream_is_told_which_share_it_is():
    shares = [flat(labels_of(share=DataShard(i, 3), shuffle_buffer=1000)) for i in range(3)]
    assert [sorted(share) for share in shares] == [list(range(i, 23, 3)) for i in range(3)]


def test_only_the_last_batch_of_several_epochs_is_short():
    found = labels_of(batch_size=10, epochs=2)
    assert [len(batch) for batch in found] == [10, 10, 10, 10, 6]
    assert flat(found) == [*range(23), *range(23)]


def test_every_epoch_is_shuffled_anew_and_holds_every_example_once():
    found = flat(labels_of(Numbers(chunk=100), shuffle_buffer=1000, epochs=3))
    passes = [found[:23], found[23:46], found[46:]]
    assert all(sorted(one) == list(range(23)) for one in passes)
    assert len({str(one) for one in passes}) == 3


def test_the_pool_is_shuffled_even_where_the_chunks_come_in_their_order():
    class Ordered(Numbers):
        def chunks(self, share, seed):
            return super().chunks(share, None)

    passes = np.reshape(flat(labels_of(Ordered(), shuffle_buffer=1000, epochs=2)), [2, 23]).tolist()
    assert all(sorted(one) == list(range(23)) != one for one in passes)
    assert passes[0] != passes[1]


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    first, again, other = (labels_of(shuffle_buffer=1000, epochs=2, seed=seed) for seed in (7, 7, 8))
    assert first == again != other


def test_features_stay_with_their_labels_in_the_shuffle():
    for features, labels, _ in run_to_end(lambda: training_batches(Numbers(), DataShard(1, 2), 4, 2, 6)):
        np.testing.assert_array_equal(features["x"], labels[:, None] * 10)


class Lists(Stream):
    """Example n has a list of n % 3 numbers, each n."""

    def __init__(self, is_sparse):
        self.is_sparse = is_sparse

    def chunks(self, share, seed):
        lists = lists_of(tf.data.Dataset.range(20), lambda n: n % 3).ragged_batch(6)
        return lists.map(lambda numbers, n: (numbers.to_sparse(), n)) if self.is_sparse else lists


@pytest.mark.parametrize("shuffle_buffer", [0, 4, 100])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_ragged_and_sparse_features_stay_with_their_labels_too(is_sparse, shuffle_buffer):
    seen = []
    for features, labels, _ in run_to_end(lambda: training_batches(Lists(is_sparse), ALONE, 4, 1, shuffle_buffer)):
        lists = [[] for _ in labels] if is_sparse else features.to_list()
        for (row, _), value in zip(features.indices, features.values, strict=True) if is_sparse else ():
            lists[row].append(value)
        assert lists == [[label] * (label % 3) for label in labels]
        seen += labels.tolist()
    assert sorted(seen) == list(range(20)) and (seen == sorted(seen)) == (shuffle_buffer == 0)


def test_without_a_number_of_epochs_the_data_never_end():
    assert labels_of(batch_size=23, epochs=0, most=7) == [list(range(23))] * 7


def test_a_share_without_examples_ends_at_once_even_if_it_is_to_be_repeated_for_ever():
    assert labels_of(Numbers(count=2), DataShard(2, 3), epochs=0, shuffle_buffer=10) == []
    assert labels_of(Numbers(count=2), DataShard(2, 3), epochs=1) == []


def test_endless_batches_go_on_after_the_end_and_stand_for_no_examples():
    found = run_to_end(lambda: training_batches(Numbers(count=5), ALONE, 2, 1, 0, endless=True), most=6)
    assert [labels.tolist() for _, labels, _ in found] == [[0, 1], [2, 3], [4], [0, 1], [0, 1], [0, 1]]
    assert [float(examples) for _, _, examples in found] == [2, 2, 1, 0, 0, 0]


def test_evaluation_sees_every_example_once_and_in_order():
    found = [labels.tolist() for _, labels, _ in run_to_end(lambda: evaluation_batches(Numbers(), 10))]
    assert found == [list(range(10)), list(range(10, 20)), [20, 21, 22]]


def test_a_source_makes_a_stream_anew_for_each_graph():
    calls = []
    source = DataSource(lambda: calls.append(1) or Numbers())
    for _ in range(2):
        with tf.Graph().as_default():
            training_batches(source.get(), ALONE, 4, 1, 0)
    assert len(calls) == 2


def test_a_failure_in_a_pipeline_is_found_again_as_one_line():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run_to_end(lambda: training_batches(Fails(), ALONE, 1, 1, 0))
    found = data_error(caught.value)
    assert isinstance(found, DataError)
    assert str(found) == "the third number is wrong: use another."


def lists_of(numbers, length):
    """A dataset of lists, each of its number as often as `length` says, with the number."""
    return numbers.map(lambda n: (tf.fill([length(n)], n), n))


def test_an_assertion_tells_its_texts_and_tensors_as_one_line():
    with tf.Graph().as_default(), v1.Session() as session:
        wrong = tf.where(tf.constant([False, True]))[:1]
        parts = ["column [3]: id ", wrong, " of ", 7, "; give [1, 2]"]
        session.run(assertion(tf.constant([True, True]), parts))
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(assertion(tf.constant([True, False]), parts))
    assert str(data_error(caught.value)) == "column [3]: id 1 of 7; give [1, 2]"


def test_examples_that_differ_in_shape_are_a_fault_of_the_data():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run_to_end(lambda: training_batches(lists_of(tf.data.Dataset.range(10), lambda n: n), ALONE, 2, 1, 0))
    assert str(data_error(caught.value)).startswith("examples differ in shape, such as [")


def test_both_texts_of_tensorflow_about_shapes_are_known():
    for text in (
        "Cannot batch tensors with different shapes in component 0. First element had shape [3] and element 1 had "
        "shape [2].",
        "Cannot add tensor to the batch: number of elements does not match. Shapes are: [tensor]: [3], [batch]: [2]",
    ):
        assert "such as [3] and [2]: give" in str(data_error(ValueError(text)))


@pytest.mark.parametrize("shuffle_buffer", [0, 10])
def test_the_way_out_makes_them_ragged(shuffle_buffer):
    def ragged():
        return lists_of(tf.data.Dataset.range(10), lambda n: n).ragged_batch(4).unbatch()

    batches = run_to_end(lambda: training_batches(ragged(), DataShard(1, 2), 2, 1, shuffle_buffer))
    lists = [numbers for features, _, _ in batches for numbers in features.to_list()]
    assert sorted(lists) == [[number] * number for number in (1, 3, 5, 7, 9)]


def test_an_error_of_something_else_is_no_data_error():
    assert data_error(ValueError("the third number is wrong")) is None
