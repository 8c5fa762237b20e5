"""The speed of a ps is measured over TensorFlow's transport, and weights follow from it."""

from __future__ import annotations

import pytest

from ps_train.cluster.sessions.ps_speed import bytes_per_sec, weights_of
from tests.support.clusters.servers import POOL


def test_a_server_on_this_machine_moves_megabytes_a_second() -> None:
    (server,) = POOL.take(1)
    assert bytes_per_sec(server.target) > 10e6


@pytest.mark.parametrize(
    ("rates", "weights"),
    [
        ([90e6, 88e6, 36e6], "1,0.98,0.4"),
        ([90e6, 80e6], ""),
        ([None, 40e6, 10e6], "1,1,0.25"),
        ([None, 40e6], ""),
        ([None, None], ""),
        ([5.0, 1e9], "5e-09,1"),
    ],
)
def test_weights_follow_from_speeds_that_differ(rates: list[float | None], weights: str) -> None:
    assert weights_of(rates) == weights
