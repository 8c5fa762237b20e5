"""What a client of partitions measures."""

from __future__ import annotations

import types

from ps_train.data.unbounded.row_gate import OPEN
from ps_train.training.loop.partition_client import PartitionClient


def test_a_record_has_the_partitions_with_the_largest_lag():
    client = PartitionClient.__new__(PartitionClient)
    client._ahead = types.SimpleNamespace(lags={number: (float(number), 1.0) for number in range(200)})
    client._gate, client._lag_unit = OPEN, "bytes"
    found = client.measured()
    assert sorted(map(int, found["lag"])) == list(range(136, 200)) and found["lag"]["199"] == [199.0, 1.0]
    assert found["lag_unit"] == "bytes"
