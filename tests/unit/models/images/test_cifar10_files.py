"""The reader of CIFAR-10's binary files; its messages name the wrong file."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from ps_train import DataError
from ps_train.models.images import load_cifar10

RECORDS, BYTES = 10_000, 3073
TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]


def store(path, records=RECORDS, changes=()):
    """Writes records of zeros, and bytes at (record, position) of them; a hole in the file takes no disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(records * BYTES)
        for record, position, values in changes:
            file.seek(record * BYTES + position)
            file.write(bytes(values))


def refusal(directory, split="train"):
    with pytest.raises(DataError) as caught:
        load_cifar10(str(directory), split)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-bin"])
def test_five_files_are_the_train_split_in_their_order_and_one_is_the_test_split(tmp_path, folder):
    for number, name in enumerate([*TRAIN, "test_batch.bin"], start=1):
        store(tmp_path / folder / name, changes=[(0, 0, [number]), (RECORDS - 1, 0, [9])])
    images, labels = load_cifar10(str(tmp_path), "train")
    assert images.shape == (50_000, 32, 32, 3) and images.dtype == np.uint8
    assert labels.shape == (50_000,) and labels.dtype == np.int64
    assert labels[::RECORDS].tolist() == [1, 2, 3, 4, 5] and labels[RECORDS - 1 :: RECORDS].tolist() == [9] * 5
    images, labels = load_cifar10(str(tmp_path), "test")
    assert images.shape == (10_000, 32, 32, 3) and labels[[0, 1, -1]].tolist() == [6, 0, 9]


def test_a_record_is_the_label_and_then_planes_of_red_green_and_blue_row_by_row(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, size=(32, 32, 3), dtype=np.uint8)
    planes = b"".join(pixels[:, :, colour].tobytes() for colour in range(3))
    store(tmp_path / "test_batch.bin", changes=[(7, 0, [4, *planes])])
    images, labels = load_cifar10(str(tmp_path), "test")
    np.testing.assert_array_equal(images[7], pixels)
    assert labels[7] == 4 and not images[[6, 8]].any() and images.flags.c_contiguous


@pytest.mark.parametrize("split", ["train", "test"])
def test_all_missing_files_are_named_with_the_directory(tmp_path, split):
    store(tmp_path / TRAIN[2])
    message = refusal(tmp_path, split)
    assert f"data_dir={tmp_path}" in message and "cifar-10-binary.tar.gz" in message
    wanted = ["test_batch.bin"] if split == "test" else [name for name in TRAIN if name != TRAIN[2]]
    assert message.startswith(", ".join(wanted) + (" is not" if split == "test" else " are not"))


def test_an_empty_folder_beside_the_files_is_not_in_their_way(tmp_path):
    store(tmp_path / "test_batch.bin")
    (tmp_path / "cifar-10-batches-bin").mkdir()
    assert len(load_cifar10(str(tmp_path), "test")[1]) == RECORDS


def test_a_missing_directory_and_one_that_is_not_given_are_refused(tmp_path, monkeypatch):
    assert f"data_dir={tmp_path / 'none'}" in refusal(tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    assert "(not given)" in refusal("")


@pytest.mark.parametrize("size", [0, 1, RECORDS * BYTES - 1, RECORDS * BYTES + 1, (RECORDS - 1) * BYTES])
def test_a_file_of_another_size_is_refused_with_both_sizes(tmp_path, size):
    for name in TRAIN[:2]:
        store(tmp_path / name)
    for name in TRAIN[2:]:
        (tmp_path / name).touch()
    with (tmp_path / TRAIN[2]).open("wb") as file:
        file.truncate(size)
    message = refusal(tmp_path)
    assert f"{tmp_path / TRAIN[2]} has {size} bytes" in message and "30730000" in message


def test_a_label_above_9_is_refused_with_its_record(tmp_path):
    store(tmp_path / "test_batch.bin", changes=[(17, 0, [10]), (18, 0, [255])])
    message = refusal(tmp_path, "test")
    assert f"{tmp_path / 'test_batch.bin'} has the label 10 in record 17" in message and "0 to 9" in message


def test_a_file_that_cannot_be_read_is_refused_with_its_name(tmp_path, monkeypatch):
    store(tmp_path / "test_batch.bin")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "fromfile", refuse)
    message = refusal(pathlib.Path(tmp_path), "test")
    assert str(tmp_path / "test_batch.bin") in message and "Permission denied" in message
