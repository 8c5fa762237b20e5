"""Augmented images: each once in an epoch, shifted and mirrored by random numbers that depend on the seed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import training_batches
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.data.shards.shard_layout import Assignment, progress_value
from ps_train.data.shards.shard_readers import reader_of
from ps_train.models.images import AugmentedImages, crop_and_flip

COUNT = 700
LABELS = np.arange(COUNT)
IMAGES = np.random.default_rng(1).integers(1, 256, size=(COUNT, 6, 8, 3), dtype=np.uint8)
PADDING = 4


def augmented(images, seed, padding=PADDING):
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(images.dtype, [None, *images.shape[1:]])
        return session.run(crop_and_flip(given, tf.constant(seed, tf.int64), padding), {given: images})


def possible(image, padding=PADDING):
    """All results for an image, by (shift down, shift right, is mirrored)."""
    rows, columns, _ = image.shape
    padded = np.pad(image, [(padding, padding), (padding, padding), (0, 0)])
    cut = {
        (down, right): padded[down : down + rows, right : right + columns]
        for down in range(2 * padding + 1)
        for right in range(2 * padding + 1)
    }
    return {(*place, flip): found[:, ::-1] if flip else found for place, found in cut.items() for flip in (False, True)}


def change_of(image, result, padding=PADDING):
    """The change that made the result; fails if there is none."""
    (found,) = [key for key, value in possible(image, padding).items() if np.array_equal(value, result)][:1]
    return found


def test_every_result_is_a_window_of_the_padded_image_mirrored_or_not():
    results = augmented(IMAGES, [5, 0])
    assert results.dtype == np.uint8 and results.shape == IMAGES.shape
    changes = np.array([change_of(image, result) for image, result in zip(IMAGES, results, strict=True)])
    for place in (0, 1):
        counts = np.bincount(changes[:, place], minlength=9)
        assert counts.min() > 0.5 * COUNT / 9 and counts.max() < 1.5 * COUNT / 9
    assert 0.4 < changes[:, 2].mean() < 0.6
    assert abs(np.corrcoef(changes.T) - np.eye(3)).max() < 0.2


def test_the_seed_decides_all_changes():
    np.testing.assert_array_equal(augmented(IMAGES, [5, 0]), augmented(IMAGES, [5, 0]))
    assert (augmented(IMAGES, [5, 0]) != augmented(IMAGES, [6, 0])).any(axis=(1, 2, 3)).mean() > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_images_of_any_dtype_without_padding_are_only_mirrored(dtype):
    images = IMAGES[:50].astype(dtype)
    results = augmented(images, [5, 0], padding=0)
    assert results.dtype == dtype
    flips = [change_of(image, result, padding=0)[2] for image, result in zip(images, results, strict=True)]
    assert 5 < sum(flips) < 45


def epochs_of(shard=WHOLE, seed=1, epochs=1, shuffle_buffer=10_000, graph_seed=1):
    """Images and labels of each epoch, as a replica gets them."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(graph_seed)
        batches = training_batches(AugmentedImages(IMAGES, LABELS), shard, 50, epochs, shuffle_buffer)
        session.run(batches.initializer, batches.feeds(seed))
        found = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run((batches.features, batches.labels)))
    images, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return list(zip(np.split(images, epochs), np.split(labels, epochs), strict=True))


@pytest.mark.usual(2)
@pytest.mark.parametrize("shuffle_buffer", [0, 10_000])
@pytest.mark.parametrize("count", [1, 3])
def test_shards_are_disjoint_and_together_all_images(shuffle_buffer, count):
    labels = [epochs_of(DataShard(index, count), shuffle_buffer=shuffle_buffer)[0][1] for index in range(count)]
    assert sorted(np.concatenate(labels)) == LABELS.tolist()
    assert all((part % count == index).all() for index, part in enumerate(labels))


def test_every_image_comes_with_its_label_and_changed():
    ((images, labels),) = epochs_of()
    changes = [change_of(IMAGES[label], image) for image, label in zip(images, labels, strict=True)]
    assert len(set(changes)) > 100


@pytest.mark.parametrize("shuffle_buffer", [0, 100, 10_000])
def test_every_epoch_has_each_image_once_with_other_changes(shuffle_buffer):
    first, second = epochs_of(epochs=2, shuffle_buffer=shuffle_buffer)
    assert sorted(first[1]) == sorted(second[1]) == LABELS.tolist()
    if shuffle_buffer:
        assert first[1].tolist() != second[1].tolist() and first[1].tolist() != LABELS.tolist()
    else:
        assert first[1].tolist() == LABELS.tolist()
    same = first[0][np.argsort(first[1])] == second[0][np.argsort(second[1])]
    assert same.all(axis=(1, 2, 3)).mean() < 0.1


@pytest.mark.parametrize("shuffle_buffer", [0, 10_000])
def test_order_and_changes_are_reproducible_and_depend_on_the_seed(shuffle_buffer):
    (first,), (again,) = (epochs_of(shuffle_buffer=shuffle_buffer) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    (other,) = epochs_of(seed=2, shuffle_buffer=shuffle_buffer, graph_seed=2)
    assert (first[0] != other[0]).any(axis=(1, 2, 3)).mean() > 0.9


def test_shards_in_the_order_of_the_data_have_changes_of_their_own():
    (first,), (second,) = (epochs_of(DataShard(index, 2), shuffle_buffer=0) for index in (0, 1))
    changes = [
        [change_of(IMAGES[label], image) for image, label in zip(*found, strict=True)] for found in (first, second)
    ]
    assert np.mean([a == b for a, b in zip(*changes, strict=True)]) < 0.1


def dynamic(assignments, shuffle_buffer=10_000):
    """Images and labels of assigned shards under dynamic sharding."""
    job = Job(sharding="dynamic", shuffle_buffer=shuffle_buffer)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        sharded = ShardedBatches(reader_of(AugmentedImages(IMAGES, LABELS), job), batch_size=COUNT)
        for assignment in assignments:
            sharded.assign(assignment)
        session.run(sharded.batches.initializer)
        return [session.run((sharded.batches.features, sharded.batches.labels)) for _ in assignments]


def whole(shard, epoch=0):
    return Assignment(shard, progress_value(epoch), progress_value(epoch + 1))


def test_dynamic_shards_are_runs_of_256_images_with_other_changes_in_each_epoch():
    found = dynamic([whole(shard, epoch) for epoch in (0, 1) for shard in range(3)])
    first, second = ([np.concatenate(parts) for parts in zip(*epoch, strict=True)] for epoch in (found[:3], found[3:]))
    assert sorted(first[1]) == sorted(second[1]) == LABELS.tolist()
    assert sorted(len(labels) for _, labels in found[:3]) == [COUNT - 512, 256, 256]
    for images, labels in (first, second):
        for image, label in zip(images, labels, strict=True):
            change_of(IMAGES[label], image)
    same = first[0][np.argsort(first[1])] == second[0][np.argsort(second[1])]
    assert same.all(axis=(1, 2, 3)).mean() < 0.1


def test_dynamic_shards_in_the_order_of_the_data_are_reproducible():
    assignments = [whole(shard) for shard in (1, 0)]
    first, again = dynamic(assignments, shuffle_buffer=0), dynamic(assignments, shuffle_buffer=0)
    assert [labels.tolist() for _, labels in first] == [list(range(256, 512)), list(range(256))]
    np.testing.assert_array_equal(first[0][0], again[0][0])


def test_a_name_of_pieces_tells_their_number_and_size():
    with tf.Graph().as_default():
        pieces = AugmentedImages(IMAGES, LABELS).pieces()
    assert (pieces.count, pieces.name) == (3, "700_images_by_256")
