"""The synthetic pictures: the same everywhere, of ten shapes that a mirror does not mix up."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ps_train.models.images import shapes, synthetic_shapes
from ps_train.models.images.shapes import SHAPES


@pytest.mark.parametrize(("split", "count"), [("train", 5000), ("test", 1000)])
def test_a_split_has_the_form_of_cifar_10_and_every_shape_equally_often(split, count):
    images, labels = synthetic_shapes(split)
    assert images.shape == (count, 32, 32, 3) and images.dtype == np.uint8
    assert labels.dtype == np.int64 and np.bincount(labels).tolist() == [count // 10] * 10
    assert len(SHAPES) == 10


def test_the_order_of_the_labels_is_random():
    labels = synthetic_shapes("train")[1]
    assert max(np.bincount(labels[:500])) < 100


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_pictures_are_the_same_at_every_call(split):
    first = synthetic_shapes(split)
    shapes.synthetic_shapes.cache_clear()
    for before, after in zip(first, synthetic_shapes(split), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_splits_have_no_picture_in_common():
    train, test = ({image.tobytes() for image in synthetic_shapes(split)[0]} for split in ("train", "test"))
    assert len(train) == 5000 and train.isdisjoint(test)


def test_callers_cannot_change_the_pictures_of_others():
    with pytest.raises(ValueError, match="read-only"):
        synthetic_shapes("test")[0][0] = 0


def test_the_pictures_are_made_within_seconds():
    shapes.synthetic_shapes.cache_clear()
    start = time.process_time()
    synthetic_shapes("train")
    assert time.process_time() - start < 5


GRID = (np.arange(32) + 0.5) / 16 - 1
"""Places of 32 pixels from -1 to 1, which floating-point numbers hold exactly."""


@pytest.mark.parametrize("name", SHAPES)
def test_a_mirrored_shape_is_the_same_shape(name):
    mask = shapes._MASKS[name](GRID[None, :], GRID[:, None])
    np.testing.assert_array_equal(mask, mask[:, ::-1])


def test_shapes_differ_in_many_pixels():
    masks = [mask(GRID[None, :], GRID[:, None]) for mask in shapes._MASKS.values()]
    differences = [np.mean(masks[i] != masks[j]) for i in range(10) for j in range(i)]
    assert min(differences) > 0.1


def test_the_pixels_of_a_shape_are_lighter_than_its_background():
    random = np.random.RandomState(3)
    masks = shapes._shape_masks(random, np.arange(200) % 10)
    light = shapes._paint(masks, random).astype(float).mean(axis=3)
    for mask, image in zip(masks, light, strict=True):
        assert mask.any() and image[mask].mean() > image[~mask].mean() + 25
