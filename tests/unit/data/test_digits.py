"""The digits that ship with the package."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.data import digits


@pytest.mark.parametrize(("split", "size"), [("train", 1438), ("test", 359)])
def test_a_split_has_its_size_and_form(split, size):
    images, labels = digits.load(split)
    assert images.shape == (size, 64)
    assert labels.shape == (size,)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64


def test_the_splits_together_are_all_1797_digits():
    assert sum(len(digits.load(split)[1]) for split in ("train", "test")) == 1797


@pytest.mark.parametrize("split", ["train", "test"])
def test_pixels_are_from_0_to_1_and_use_that_range(split):
    images, _ = digits.load(split)
    assert images.min() == 0.0
    assert images.max() == 1.0


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_class_is_in_every_split_about_equally_often(split):
    counts = np.bincount(digits.load(split)[1])
    assert len(counts) == 10
    assert counts.min() > 0.5 * counts.mean()
    assert counts.max() < 1.5 * counts.mean()


def test_no_image_is_in_both_splits():
    train, test = ({image.tobytes() for image in digits.load(split)[0]} for split in ("train", "test"))
    assert train.isdisjoint(test)


def test_the_split_is_the_same_every_time():
    for first, second in zip(digits.load("test"), digits.load("test"), strict=True):
        np.testing.assert_array_equal(first, second)


def test_images_and_labels_belong_together():
    """The nearest class mean of the train split finds most labels of the test split: they are not mixed up."""
    images, labels = digits.load("train")
    means = np.stack([images[labels == number].mean(axis=0) for number in range(10)])
    tests, wanted = digits.load("test")
    found = np.argmin(((tests[:, None] - means) ** 2).sum(axis=2), axis=1)
    assert np.mean(found == wanted) > 0.8
