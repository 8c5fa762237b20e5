"""The reader of the Criteo format gives what plain Python reads in the same lines."""

from __future__ import annotations

import gzip
import random

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data import criteo
from ps_train.data.criteo.files import SplitFiles, SplitPart
from ps_train.data.criteo.reader import Criteo, from_hexadecimal
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import evaluation_batches, training_batches
from tests.support.long import long

ALONE = DataShard(0, 1)


def made_lines(count, seed=1):
    """Lines whose fields are of every length, a third of them missing; the first integer numbers the lines."""
    chance = random.Random(seed)
    lines = []
    for number in range(count):
        integers = [
            "" if chance.random() < 0.3 else str(chance.randint(-3, 10 ** chance.randint(0, 7))) for _ in "x" * 12
        ]
        categories = ["" if chance.random() < 0.3 else f"{chance.getrandbits(32):x}" for _ in "x" * 26]
        lines.append("\t".join([chance.choice("01"), str(number), *integers, *categories]))
    return lines


def parsed(line):
    """The oracle: (label, integers, present, categories)."""
    fields = line.split("\t")
    integers = [float(field) if field else 0.0 for field in fields[1:14]]
    present = [float(field != "") for field in fields[1:14]]
    return float(fields[0]), integers, present, [int(field, 16) if field else -1 for field in fields[14:]]


def examples_of(batches):
    """What a graph's batches hold, as `parsed` gives it."""
    found = []
    with v1.Session() as session:
        session.run(batches.initializer, batches.feeds(1))
        while True:
            try:
                features, labels = session.run((batches.features, batches.labels))
            except tf.errors.OutOfRangeError:
                return found
            columns = (labels, features["integers"], features["present"], features["categories"])
            found += zip(*(column.tolist() for column in columns), strict=True)


def trained_on(data, share=ALONE, batch_size=10, epochs=1, shuffle_buffer=0):
    with tf.Graph().as_default():
        return examples_of(training_batches(data(), share, batch_size, epochs, shuffle_buffer))


def whole(*files, **options):
    return lambda: Criteo(SplitFiles(tuple(files), SplitPart.ALL), **options)


@pytest.fixture
def store(tmp_path):
    def write(name, lines, end="\n", last="\n"):
        path = tmp_path / name
        content = (end.join(lines) + last).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def as_float32(examples):
    return [(label, np.float32(integers).tolist(), present, ids) for label, integers, present, ids in examples]


@pytest.mark.usual(2)
@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [long(True), False])
def test_the_examples_are_those_that_plain_python_reads(store, name, end, last):
    lines = made_lines(57)
    path = store(name, lines, end, end if last else "")
    assert trained_on(whole(path, block_bytes=1000)) == as_float32(map(parsed, lines))


def test_types_and_shapes_are_known_before_anything_is_read(store):
    path = store("train.txt", made_lines(3))
    with tf.Graph().as_default():
        batches = training_batches(whole(path)(), ALONE, 10, 1, 1000)
        kinds = {name: (value.dtype, value.shape.as_list()) for name, value in batches.features.items()}
        assert (batches.labels.dtype, batches.labels.shape.as_list()) == (tf.float32, [None])
    assert kinds == {
        "integers": (tf.float32, [None, 13]),
        "present": (tf.float32, [None, 13]),
        "categories": (tf.int64, [None, 26]),
    }


def test_a_line_may_have_no_field_but_its_label(store):
    path = store("train.txt", ["1" + "\t" * 39])
    assert trained_on(whole(path)) == [(1.0, [0.0] * 13, [0.0] * 13, [-1] * 26)]


def test_a_field_that_is_zero_is_not_missing(store):
    path = store("train.txt", ["\t".join(["0"] * 40)])
    assert trained_on(whole(path)) == [(0.0, [0.0] * 13, [1.0] * 13, [0] * 26)]


def test_hexadecimal_numbers_of_every_length_and_case():
    texts = ["", *(digit * length for digit in "09afAF" for length in range(1, 9)), "12345678", "9abcdef0", "00000010"]
    with tf.Graph().as_default(), v1.Session() as session:
        found = session.run(from_hexadecimal(tf.constant([texts, texts])))
    assert found.tolist() == [[int(text, 16) if text else -1 for text in texts]] * 2


@pytest.mark.parametrize("count", [long(1), 2, long(3), long(4), 5])
@pytest.mark.parametrize("shuffle_buffer", [0, 20])
@pytest.mark.usual(1)
def test_the_shares_of_a_directory_are_disjoint_and_complete(store, count, shuffle_buffer):
    lines = made_lines(200)
    files = (
        store("train-0", lines[:120]),
        store("train-1.gz", lines[120:170]),
        store("train-2", lines[170:172]),
        store("train-3", lines[172:]),
    )
    shares = [
        trained_on(whole(*files, block_bytes=2000), DataShard(index, count), shuffle_buffer=shuffle_buffer)
        for index in range(count)
    ]
    found = [example for share in shares for example in share]
    assert sorted(found) == sorted(as_float32(map(parsed, lines)))
    assert all(shares)


def test_every_pass_has_every_line_once_and_in_an_order_of_its_own(store):
    lines = made_lines(50)
    found = trained_on(whole(store("train.txt", lines)), epochs=2, shuffle_buffer=1000)
    passes = [[integers[0] for _, integers, _, _ in half] for half in (found[:50], found[50:])]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(50))
    assert passes[0] != passes[1] != list(range(50))


def test_evaluation_reads_every_line_in_order(store):
    lines = made_lines(35)
    with tf.Graph().as_default():
        assert examples_of(evaluation_batches(whole(store("test.txt", lines))(), 8)) == as_float32(map(parsed, lines))


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_what_is_held_out_is_a_tenth_and_the_same_for_any_number_of_replicas(store, tmp_path, name):
    lines = made_lines(1000)
    store(name, lines)
    directory = str(tmp_path)
    train, test = ([trained_on(lambda s=s: criteo.load(directory, s), batch_size=500)][0] for s in ("train", "test"))
    assert sorted(train + test) == sorted(as_float32(map(parsed, lines)))
    assert 60 < len(test) < 140
    halves = [trained_on(lambda: criteo.load(directory, "train"), DataShard(i, 2), batch_size=500) for i in range(2)]
    assert sorted(halves[0] + halves[1]) == sorted(train)


def test_equal_lines_are_never_in_both_splits(store, tmp_path):
    store("train.txt", made_lines(50) * 3)
    train, test = (trained_on(lambda s=s: criteo.load(str(tmp_path), s)) for s in ("train", "test"))
    assert len(train) + len(test) == 150
    assert {example[1][0] for example in train}.isdisjoint(example[1][0] for example in test)


def test_labelled_test_files_are_the_test_split_and_nothing_is_held_out(store, tmp_path):
    lines = made_lines(40)
    store("train.txt", lines[:30])
    store("test.txt", lines[30:])
    train, test = (trained_on(lambda s=s: criteo.load(str(tmp_path), s)) for s in ("train", "test"))
    assert train == as_float32(map(parsed, lines[:30]))
    assert test == as_float32(map(parsed, lines[30:]))


def test_files_without_a_single_line_are_refused(store):
    path = store("train.txt", [], last="")
    with pytest.raises(DataError, match=r"train\.txt: no lines found"):
        whole(path)()


def test_the_graph_does_not_grow_with_the_data(store):
    sizes = []
    for count in (10, 3000):
        path = store("train.txt", made_lines(count))
        with tf.Graph().as_default() as graph:
            training_batches(whole(path, block_bytes=1000)(), ALONE, 10, 1, 100)
            sizes.append(graph.as_graph_def().ByteSize())
    assert abs(sizes[0] - sizes[1]) < 1000
