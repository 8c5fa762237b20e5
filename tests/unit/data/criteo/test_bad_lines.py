"""Malformed lines are skipped, counted, shown, and refused beyond a limit."""

from __future__ import annotations

import gzip
import logging
import re

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data.bad_records import SHOWN
from ps_train.data.criteo.bad_lines import LINE, describe_error
from ps_train.data.criteo.files import SplitFiles, SplitPart
from ps_train.data.criteo.reader import Criteo
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import training_batches
from ps_train.data.stream import data_error

GOOD = ["1", *"7" * 13, *["00ab12cd"] * 26]


def changed(column, value):
    return "\t".join([*GOOD[:column], value, *GOOD[column + 1 :]])


GOOD_LINE = "\t".join(GOOD)
BAD = {
    "\t".join(GOOD[1:]): "39 columns instead of 40, as in a file without labels",
    "\t".join([*GOOD, ""]): "41 columns instead of 40",
    "": "1 columns instead of 40",
    GOOD_LINE.replace("\t", ","): "1 columns instead of 40",
    changed(0, ""): "the label is '' instead of 0 or 1",
    changed(0, "2"): "the label is '2' instead of 0 or 1",
    changed(0, "01"): "the label is '01' instead of 0 or 1",
    changed(1, "x"): "integer 1 is 'x'",
    changed(13, "1.5"): "integer 13 is '1.5'",
    changed(3, "-"): "integer 3 is '-'",
    changed(3, " 4"): "integer 3 is ' 4'",
    changed(3, "9" * 19): "integer 3 is '9999999999999999999', which is not an integer of up to 18 digits",
    changed(14, "xyz"): "category 1 is 'xyz'",
    changed(39, "123456789"): "category 26 is '123456789', which is not a hexadecimal number of up to 8 digits",
    changed(20, "y" * 500): "category 7 is '" + "y" * 77 + "...'",
    changed(20, "\N{EURO SIGN}"): "category 7 is",
}
ACCEPTED = [
    GOOD_LINE,
    changed(0, "0"),
    changed(2, "-3"),
    changed(2, ""),
    changed(30, ""),
    changed(30, "F"),
    changed(5, "9" * 18),
]


def run(path, limit, share=None, epochs=1, block_bytes=300):
    """How many examples were read, and the reader."""
    with tf.Graph().as_default(), v1.Session() as session:
        data = Criteo(SplitFiles((path,), SplitPart.ALL), limit, block_bytes)
        batches = training_batches(data, share or DataShard(0, 1), 7, epochs, 0)
        session.run(batches.initializer)
        count = 0
        while True:
            try:
                count += len(session.run(batches.labels))
            except tf.errors.OutOfRangeError:
                return count, data
            except tf.errors.InvalidArgumentError as error:
                found = data_error(error)
                raise found if found else error from None


@pytest.fixture
def store(tmp_path):
    def write(lines, name="train.txt"):
        path = tmp_path / name
        content = "".join(line + "\n" for line in lines).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize("line", BAD)
@pytest.mark.usual(4)
def test_a_malformed_line_is_skipped_and_said_to_be_wrong(store, caplog, line):
    with caplog.at_level(logging.WARNING):
        count, data = run(store([GOOD_LINE, line, GOOD_LINE]), limit=1)
    assert (count, data.bad_records.count) == (2, 1)
    assert BAD[line] in caplog.text
    assert "train.txt line 2: " in caplog.text


@pytest.mark.usual(3)
@pytest.mark.parametrize("line", ACCEPTED)
def test_a_well_formed_line_is_kept(store, line):
    count, data = run(store([line]), limit=0)
    assert (count, data.bad_records.count) == (1, 0)


@pytest.mark.parametrize("line", [*BAD, *ACCEPTED])
def test_the_pattern_and_the_words_agree(line):
    assert (re.fullmatch(LINE, line) is None) == (describe_error(line.encode()) != "nothing")


def test_a_gzipped_file_is_named_with_the_number_of_the_line(store, caplog):
    lines = [GOOD_LINE] * 10
    lines[6] = "x"
    path = store(lines, "train.txt.gz")
    with caplog.at_level(logging.WARNING):
        counts = [run(path, limit=1, share=DataShard(index, 2))[0] for index in range(2)]
    assert counts == [4, 5]
    assert "train.txt.gz line 7: 1 columns" in caplog.text


@pytest.mark.usual(1)
@pytest.mark.parametrize("limit", [0, 3])
def test_one_line_more_than_the_limit_is_an_error_that_says_so(store, limit):
    lines = ([GOOD_LINE] * 3 + ["x"]) * (limit + 1)
    with pytest.raises(DataError) as caught:
        run(store(lines), limit)
    message = str(caught.value)
    assert f"max_bad_lines={limit}" in message
    assert f"malformed line number {limit + 1}" in message
    assert f"train.txt line {4 * (limit + 1)}: " in message
    assert "1 columns instead of 40" in message
    assert "\n" not in message
    assert run(store(lines), limit + 1)[0] == 3 * (limit + 1)


def test_a_line_counts_once_and_is_shown_once_however_often_it_is_read(store, caplog):
    with caplog.at_level(logging.WARNING):
        count, data = run(store([GOOD_LINE, "x", "y", GOOD_LINE]), limit=2, epochs=4)
    assert (count, data.bad_records.count) == (8, 2)
    assert caplog.text.count("the line is skipped") == 2


def test_only_the_first_ones_are_shown_and_then_every_tenfold_number(store, caplog):
    with caplog.at_level(logging.WARNING):
        _, data = run(store(["x"] * 25 + [GOOD_LINE]), limit=30)
    assert data.bad_records.count == 25
    assert caplog.text.count("the line is skipped") == SHOWN
    assert caplog.text.count("10 malformed lines are skipped so far") == 1


def test_each_share_counts_its_own(store):
    path = store(["x" * 20] * 40 + [GOOD_LINE])
    counts = [run(path, limit=40, share=DataShard(index, 3))[1].bad_records.count for index in range(3)]
    assert sum(counts) == 40
    assert max(counts) < 40


def test_a_negative_limit_is_refused(store):
    with pytest.raises(DataError, match="max_bad_lines=-1"):
        run(store([GOOD_LINE]), -1)
