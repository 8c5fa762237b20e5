"""The classic module of MNIST: its files, or the digits that ship."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ps_train.compat.tf1.mnist_input import DataSet, read_data_sets
from ps_train.data import digits


def write(directory, prefix, count, first):
    images = np.arange(first, first + count * 784, dtype=np.int64).astype(np.uint8)
    header = np.array([count, 28, 28], ">u4").tobytes()
    (directory / f"{prefix}-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + header + images.tobytes())
    labels = np.arange(count, dtype=np.uint8) % 10
    (directory / f"{prefix}-labels-idx1-ubyte").write_bytes(
        bytes([0, 0, 8, 1]) + np.array([count], ">u4").tobytes() + labels.tobytes()
    )
    return images.reshape(count, 784), labels


def test_files_of_mnist_are_read(tmp_path, capsys):
    images, labels = write(tmp_path, "train", 30, 0)
    tests, _ = write(tmp_path, "t10k", 7, 5)
    found = read_data_sets(str(tmp_path), one_hot=True, validation_size=2)
    assert (found.train.num_examples, found.validation.num_examples, found.test.num_examples) == (28, 2, 7)
    np.testing.assert_allclose(found.train.images, images[2:] / 255, rtol=1e-6)
    np.testing.assert_allclose(found.test.images, tests / 255, rtol=1e-6)
    np.testing.assert_array_equal(found.train.labels, np.eye(10)[labels[2:]])
    assert capsys.readouterr().out == ""


def test_without_files_the_shipped_digits_are_used_and_one_line_says_so(tmp_path, capsys):
    found = read_data_sets(str(tmp_path), reshape=False)
    assert capsys.readouterr().out.count("\n") == 1
    assert found.train.images.shape[1:] == (28, 28, 1) and found.train.images.dtype == np.float32
    small, labels = digits.load("test")
    np.testing.assert_array_equal(found.test.labels, labels)
    np.testing.assert_allclose(found.test.images[:, 2:26:3, 2:26:3, 0].reshape(-1, 64), small, atol=1 / 255)
    assert found.train.num_examples + found.validation.num_examples == 1438


def test_bytes_stay_bytes(tmp_path):
    assert read_data_sets(str(tmp_path), dtype=tf.uint8).test.images.dtype == np.uint8


def test_an_epoch_has_every_image_once():
    data = DataSet(np.arange(10), np.arange(10) * 2, seed=3)
    batches = [data.next_batch(4) for _ in range(5)]
    images = np.concatenate([images for images, _ in batches])
    assert sorted(images[:10]) == sorted(images[10:]) == list(range(10))
    assert list(images[:10]) != list(images[10:])
    assert all((labels == 2 * images).all() for images, labels in batches)
    assert data.epochs_completed == 2


def test_without_shuffling_the_order_stays():
    data = DataSet(np.arange(3), np.arange(3))
    assert data.next_batch(5, shuffle=False)[0].tolist() == [0, 1, 2, 0, 1]
