"""The reader of IDX files; its messages name the wrong file."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from ps_train.base.errors import DataError
from ps_train.data import idx

IMAGES = np.arange(5 * 3 * 4, dtype=np.uint8).reshape(5, 3, 4)
LABELS = np.array([3, 1, 4, 1, 5], np.uint8)
NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def encoded(array, kind=8):
    """The exact format: two zero bytes, type, number of dimensions, big-endian sizes, values."""
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def store(tmp_path):
    """Writes the two files of a split, gzipped or not; returns the directory."""

    def write(split="train", images=None, labels=None, gz=False):
        contents = (encoded(IMAGES) if images is None else images, encoded(LABELS) if labels is None else labels)
        for name, content in zip(NAMES[split], contents, strict=True):
            if gz:
                (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (tmp_path / name).write_bytes(content)
        return str(tmp_path)

    return write


def refusal(directory, split="train"):
    with pytest.raises(DataError) as caught:
        idx.load(directory, split)
    return str(caught.value)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("gz", [False, True])
def test_images_and_labels_are_read_plain_and_gzipped(store, split, gz):
    images, labels = idx.load(store(split, gz=gz), split)
    assert images.dtype == labels.dtype == np.uint8
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)


def test_splits_are_read_from_files_of_their_own(store):
    store("train")
    directory = store("test", encoded(IMAGES[:2]), encoded(LABELS[:2]))
    assert len(idx.load(directory, "train")[1]) == 5
    assert len(idx.load(directory, "test")[1]) == 2


def test_a_plain_file_is_preferred_to_a_gzipped_one(store, tmp_path):
    directory = store()
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(encoded(LABELS + 1)))
    np.testing.assert_array_equal(idx.load(directory, "train")[1], LABELS)


def test_sizes_are_big_endian(store):
    images = np.zeros((300, 1, 2), np.uint8)
    assert idx.load(store(images=encoded(images), labels=encoded(np.zeros(300, np.uint8))), "train")[0].shape == (
        300,
        1,
        2,
    )


@pytest.mark.parametrize(
    ("images", "found"),
    [
        (encoded(LABELS), "00000801"),
        (encoded(IMAGES.astype(">f4"), kind=0x0D), "00000d03"),
        (b"\x03\x08\x00\x00" + encoded(IMAGES)[4:], "03080000"),
        (b"<html>not found</html>", "3c68746d"),
        (b"", "nothing"),
    ],
)
def test_a_file_that_starts_wrongly_is_refused_with_its_first_bytes(store, images, found):
    message = refusal(store(images=images))
    assert "train-images-idx3-ubyte" in message
    assert found in message
    assert "00000803" in message


def test_labels_that_start_wrongly_are_refused(store):
    message = refusal(store(labels=encoded(IMAGES)))
    assert "train-labels-idx1-ubyte" in message
    assert "00000801" in message


def test_a_file_that_ends_within_its_header_is_refused(store):
    message = refusal(store(images=encoded(IMAGES)[:9]))
    assert "train-images-idx3-ubyte" in message
    assert "9 bytes" in message
    assert "16" in message


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b[:16]])
def test_a_file_of_the_wrong_length_is_refused_with_both_lengths(store, change):
    content = change(encoded(IMAGES))
    message = refusal(store(images=content))
    assert "train-images-idx3-ubyte" in message
    assert f"{len(content)} bytes" in message
    assert "(5, 3, 4)" in message
    assert "76" in message


def test_a_header_of_absurd_sizes_is_refused(store):
    message = refusal(store(images=struct.pack(">I3I", 0x803, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF) + b"1234"))
    assert "train-images-idx3-ubyte" in message
    assert "20 bytes" in message


def test_a_truncated_gzip_file_is_refused(store, tmp_path):
    directory = store(gz=True)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-6])
    assert str(path) in refusal(directory)


def test_a_corrupted_gzip_file_is_refused(store, tmp_path):
    directory = store(gz=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    content = bytearray(path.read_bytes())
    for position in range(12, len(content) - 4):
        content[position] ^= 0xFF
    path.write_bytes(bytes(content))
    assert str(path) in refusal(directory)


def test_a_file_is_read_as_its_first_bytes_say_whatever_its_name(store, tmp_path):
    directory = store(gz=True)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(encoded(IMAGES))
    np.testing.assert_array_equal(idx.load(directory, "train")[0], IMAGES)


def test_images_and_labels_that_differ_in_number_are_refused_with_both_files(store):
    message = refusal(store(labels=encoded(LABELS[:4])))
    for part in ("train-images-idx3-ubyte", "5 images", "train-labels-idx1-ubyte", "4 labels"):
        assert part in message


def test_a_missing_file_is_refused_with_its_name_and_the_directory(store, tmp_path):
    directory = store()
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    message = refusal(directory)
    assert "train-labels-idx1-ubyte" in message
    assert ".gz" in message
    assert f"data_dir={directory}" in message


def test_a_missing_directory_is_refused(tmp_path):
    assert f"data_dir={tmp_path / 'none'}" in refusal(str(tmp_path / "none"))


def test_a_data_dir_that_was_not_given_is_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refusal("")
    assert "not given" in message
    assert "--data_dir" in message
