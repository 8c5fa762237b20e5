"""The clocks of ps, compared with this process's."""

from __future__ import annotations

import time

import pytest
import tensorflow as tf

from ps_train.cluster.sessions.ps_clocks import PsClocks
from tests.support.clusters.servers import POOL


def test_clocks_of_one_machine_agree():
    targets = [server.target for server in POOL.take(2)]
    found = PsClocks(lambda: targets).compare()
    assert found.keys() == {"ps:0", "ps:1"}
    assert all(abs(offset.ahead) <= offset.uncertainty + 2000 for offset in found.values()), found
    assert all(0 < offset.uncertainty < 50_000_000 for offset in found.values())


def test_a_ps_that_is_gone_is_an_error_in_time():
    clocks = PsClocks(lambda: ["grpc://127.0.0.1:1"])
    began = time.monotonic()
    with pytest.raises(tf.errors.OpError):
        clocks.compare()
    assert time.monotonic() - began < 20
