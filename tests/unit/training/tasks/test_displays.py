"""The displays of all features: none hides another one's values."""

from __future__ import annotations

from ps_train.observe.status.stream_lag import StreamLag
from ps_train.training.duties.event_cuts import CutDisplay
from ps_train.training.tasks.displays import displays


def test_no_two_features_have_one_key_and_cuts_come_after_their_section() -> None:
    found = displays()
    for names in ("columns", "processes"):
        keys = [gauge.key for gauge in found.every(names)]
        assert len(set(keys)) == len(keys)
    kinds = [type(display) for display in found]
    assert len(set(kinds)) == len(kinds) and kinds.index(StreamLag) < kinds.index(CutDisplay)
