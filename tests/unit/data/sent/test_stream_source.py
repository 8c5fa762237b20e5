"""A stream's batches: whole ones cut for synchronous workers, and shards for asynchronous ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.arrays import Arrays
from ps_train.data.record_files import TextLines
from ps_train.data.sent.sent_data import SentData, sent_data
from ps_train.data.stream import Stream
from ps_train.data.unbounded.source import UnboundedSource
from tests.support.sent_batches import joined, read, read_in_a_child, same


class Numbers(Stream):
    """The numbers below 50 in chunks of 7."""

    def chunks(self, shard, seed):
        chunks = tf.data.Dataset.range(shard.index, 50, shard.count).batch(7)
        chunks = chunks if seed is None else chunks.shuffle(100, seed=seed)
        return chunks.map(lambda number: ({"number": number}, number % 2))


class Endless(UnboundedSource):
    """A source without partitions."""

    def partitions(self):
        return 0

    def read(self, partition, offset, n):
        return []


def numbers(pairs):
    return [batch[0]["number"].tolist() for batch, _ in pairs]


def test_batches_are_of_the_given_size_and_the_last_one_of_an_epoch_is_shorter():
    data = sent_data(Numbers(), batch_size=8, shuffle=False)
    assert data.steps_per_epoch == 7
    found = numbers(read(data, 8))
    assert [len(batch) for batch in found] == [8] * 6 + [2, 8]
    assert found[1] == list(range(8, 16))
    assert data.first_batch()[0]["number"].numpy().tolist() == list(range(8))


def test_each_epoch_has_every_example_once_in_another_order():
    data = sent_data(Numbers(), batch_size=8, seed=3)
    found = numbers(read(data, 14))
    first, second = ([number for batch in epoch for number in batch] for epoch in (found[:7], found[7:]))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert [len(batch) for batch in found] == ([8] * 6 + [2]) * 2


def test_parts_of_synchronous_workers_are_the_batches():
    data = sent_data(Numbers(), batch_size=8, seed=3)
    for batch, *pieces in zip(read(data, 9), *(read(data, 9, 2, index) for index in range(2)), strict=True):
        assert same(joined(pieces), batch[0])


def test_asynchronous_workers_read_shards_of_their_own():
    data = sent_data(Numbers(), batch_size=8, seed=3)
    found = [numbers(read(data, 4, 2, index, True)) for index in range(2)]
    assert sorted(number for batches in found for batch in batches for number in batch) == list(range(50))
    assert numbers(read(data, 2, 2, 1, True, start=5)) == found[1][2:]


@pytest.mark.long
def test_streams_travel(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    from ps_train.data.parquet.parquet_files import Parquet

    (tmp_path / "lines.txt").write_text("".join(f"{number}\n" for number in range(20)))
    table = pa.table(
        {"a": np.arange(20), "words": [["a"] * (number % 3) for number in range(20)], "y": np.arange(20.0)}
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=6)
    streams = {
        "lines": TextLines(
            str(tmp_path / "lines.txt"), lambda lines: (tf.strings.to_number(lines), tf.strings.length(lines))
        ),
        "parquet": Parquet(str(tmp_path / "a.parquet"), label="y"),
    }
    data = {name: sent_data(stream, batch_size=6, seed=1) for name, stream in streams.items()}
    for name, one in data.items():
        one.write(str(tmp_path / name))
    found = read_in_a_child([tmp_path / name for name in data], 5, 2, 1)
    for pairs, one in zip(found, data.values(), strict=True):
        assert one.steps_per_epoch == 4
        for there, here in zip(pairs, read(one, 5, 2, 1), strict=True):
            assert same(there[0][1], here[0][1])
    again = SentData.read(str(tmp_path / "parquet"))
    assert again.element_spec[0]["words"].ragged_rank == 1
    assert isinstance(data["parquet"].first_batch()[0]["words"], tf.RaggedTensor)


def test_arrays_of_this_package_are_arrays():
    data = sent_data(Arrays({"a": np.arange(5.0)}, np.arange(5)), batch_size=2, shuffle=False)
    assert data.steps_per_epoch == 3
    assert read(data, 1)[0][0][1].tolist() == [0, 1]


def test_a_stream_without_an_end_is_refused():
    with pytest.raises(DataError, match=r"endless is of the type Endless, whose partitions grow .*--sharding=dynamic"):
        sent_data(Endless("endless", lambda values: (values, values)))
