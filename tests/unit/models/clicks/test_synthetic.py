"""Files of synthetic clicks: their format, their dependence on the seed, and their best scores."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data import criteo
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import training_batches
from ps_train.models.clicks.synthetic import auc, best_scores, read, seed_of, write_files
from ps_train.models.clicks.synthetic_model import SyntheticClickModel

PATTERN = re.compile(r"[01](\t(-?\d+)?){13}(\t([0-9a-f]{8})?){26}")


def contents(files):
    return {path.name: gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made") / "new"
    return str(directory), write_files(str(directory), lines=10_000, seed=3, parts=2)


def test_every_line_is_of_the_format(made):
    _, files = made
    for content in contents(files).values():
        assert content.endswith(b"\n")
        assert all(PATTERN.fullmatch(line) for line in content.decode().splitlines())


def test_the_training_lines_are_parted_and_the_test_lines_are_a_fifth_as_many_more(made):
    lines = {name: content.count(b"\n") for name, content in contents(made[1]).items()}
    assert list(lines) == ["train-00000.txt", "train-00001.txt", "test-00000.txt"]
    assert lines["train-00000.txt"] + lines["train-00001.txt"] == 10_000
    assert 0 < lines["train-00000.txt"] < lines["train-00001.txt"]
    assert lines["test-00000.txt"] == 2000


def test_no_two_files_hold_the_same_lines(made):
    found = [set(content.splitlines()) for content in contents(made[1]).values()]
    assert not found[0] & found[1] and not found[0] & found[2] and not found[1] & found[2]


@pytest.mark.parametrize("gz", [False, True])
def test_the_same_seed_makes_the_same_bytes_and_another_seed_others(tmp_path, gz):
    directories = {name: tmp_path / name for name in ("first", "again", "other")}
    for name, directory in directories.items():
        write_files(str(directory), lines=500, seed=2 if name == "other" else 1, parts=3, gz=gz)
    first, again, other = (
        {path.name: path.read_bytes() for path in sorted(directory.iterdir())} for directory in directories.values()
    )
    assert first == again
    assert first.keys() == other.keys()
    assert all(first[name] != other[name] for name in first)


def test_gzipped_files_hold_the_same_lines(made, tmp_path):
    zipped = write_files(str(tmp_path / "new"), lines=10_000, seed=3, parts=2, gz=True)
    assert list(contents(zipped).values()) == list(contents(made[1]).values())


def test_the_reader_reads_what_was_drawn(made):
    directory, files = made
    labels, clicks = read(files[:2])
    with tf.Graph().as_default(), v1.Session() as session:
        data = criteo.load(directory, "train", max_bad_lines=0)
        batches = training_batches(data, DataShard(0, 1), 20_000, 1, 0)
        session.run(batches.initializer)
        features, found = session.run((batches.features, batches.labels))
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_array_equal(features["categories"], clicks.categories)
    np.testing.assert_array_equal(features["present"] == 0, np.isnan(clicks.integers))
    np.testing.assert_array_equal(features["integers"], np.nan_to_num(clicks.integers).astype(np.float32))


def test_labels_follow_the_planted_probabilities(made):
    directory, files = made
    labels, clicks = read(files)
    probabilities = SyntheticClickModel(seed_of(directory)).probabilities(clicks)
    for low in np.arange(0, 1, 0.2):
        chosen = (low <= probabilities) & (probabilities < low + 0.2)
        noise = np.sqrt((probabilities[chosen] * (1 - probabilities[chosen])).sum()) / chosen.sum()
        assert abs(labels[chosen].mean() - probabilities[chosen].mean()) < 4 * noise


def test_own_scores_are_those_of_the_planted_probabilities(made):
    directory, files = made
    labels, clicks = read(files[2:])
    probabilities = SyntheticClickModel(3).probabilities(clicks)
    scores = best_scores(directory)
    pairs = probabilities[labels == 1][:, None] - probabilities[labels == 0][None, :]
    assert scores["auc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)), abs=1e-9)
    likelihood = labels * np.log(probabilities) + (1 - labels) * np.log(1 - probabilities)
    assert scores["log_loss"] == pytest.approx(-likelihood.mean(), rel=1e-9)
    assert 0.78 < scores["auc"] < 0.88


def test_ties_count_half_in_the_auc():
    assert auc(np.array([1, 0, 1, 0]), np.array([2.0, 2.0, 2.0, 2.0])) == 0.5
    assert auc(np.array([1, 0, 0]), np.array([2.0, 2.0, 1.0])) == 0.75


def test_a_directory_that_is_not_empty_is_left_as_it_is(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(DataError, match="is not empty"):
        write_files(str(tmp_path), lines=10)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be written"):
        write_files(str(tmp_path / "file" / "new"), lines=10)


def test_scores_of_other_data_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("x")
    with pytest.raises(DataError, match=r"planted\.json.*--make"):
        seed_of(str(tmp_path))
