"""A new aggregator makes its rack ready: what has no value is initialized, and then all begins again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ps_train.engine.racks.rack_ops import RACK_DEVICE, RackOps
from ps_train.engine.variables.variables import is_ps_device, tf


@pytest.mark.parametrize(("missing", "made"), [([True, False, True], ["a", "c"]), ([False] * 3, []), ([], [])])
def test_only_missing_variables_are_initialized_and_the_reset_is_last(missing: list[bool], made: list[str]) -> None:
    runs: list[Any] = []

    class Session:
        def run(self, fetches: Any) -> Any:
            runs.append(fetches)
            return np.array(missing) if fetches == "missing" else None

    initializers: Any = ["a", "b", "c"][: len(missing)]
    names: Any = {name: name for name in ("relayed_step", "leave", "leaver", "is_published", "missing", "reset")}
    RackOps(relay=[], initializers=initializers, **names).prepare(Session())  # type: ignore[arg-type]
    assert runs == ["missing", made, "reset"]


def test_workers_meet_on_the_device_of_their_rack_which_is_no_ps() -> None:
    device = tf.DeviceSpec.from_string(RACK_DEVICE)
    assert (device.task, device.device_type) == (0, "CPU") and not is_ps_device(device)
