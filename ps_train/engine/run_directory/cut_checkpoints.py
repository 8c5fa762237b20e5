"""The checkpoints that are cuts of a stream by event time, and the file of model_dir by which users find them.

    add_cut("/models/run1", EventCut(event_time=1_795_737_600_000, step=4711, next_event_time=...), keep=5)
    read_cuts("/models/run1")               # oldest first

The file is event_cuts.json:

    {"2026-11-27T00:00:00Z": {"checkpoint": "model.ckpt-4711", "step": 4711, "next_event_time": "2026-11-27T00:00:01Z"}}
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Sequence

from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text
from ps_train.base.whole_file import write_whole
from ps_train.data.unbounded.event_times import shown_time
from ps_train.engine.run_directory.run_checkpoints import NAME

EVENT_CUTS = "event_cuts.json"
_MOST_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class EventCut:
    """A checkpoint that has all rows before a time, and none of this time or a later one.

    Attributes:
      event_time: the time, ms since 1970.
      step: global step of the checkpoint.
      next_event_time: least event time of the rows after it, ms since 1970.
    """

    event_time: int
    step: int
    next_event_time: int


def read_cuts(directory: str) -> list[EventCut]:
    """Returns the cuts in a model directory, oldest first; [] if the file is not there, or damaged."""
    try:
        found = parse_json(read_text(os.path.join(directory, EVENT_CUTS), _MOST_BYTES), _MOST_BYTES)
        cuts = [_cut_of(time, entry) for time, entry in found.items()]
    except (OSError, UntrustedError, ValueError, AttributeError):
        return []
    return sorted(cuts, key=lambda cut: cut.event_time)


def add_cut(directory: str, cut: EventCut, keep: int) -> None:
    """Adds a cut; leaves out those before the newest `keep`."""
    others = [one for one in read_cuts(directory) if one.event_time != cut.event_time]
    _write(directory, [*others, cut][-keep:])


def forget_cuts_after(directory: str, step: int) -> None:
    """Removes the cuts of steps after a restored one, which are made again."""
    cuts = read_cuts(directory)
    kept = [cut for cut in cuts if cut.step <= step]
    if len(kept) < len(cuts):
        _write(directory, kept)


def steps_of_cuts(directory: str) -> set[int]:
    """Returns the steps of the checkpoints that are cuts."""
    return {cut.step for cut in read_cuts(directory)}


def _cut_of(time: str, entry: object) -> EventCut:
    if not isinstance(entry, dict) or not is_of("int", entry.get("step")):
        raise ValueError("not an entry of a cut")
    return EventCut(_milliseconds(time), entry["step"], _milliseconds(entry.get("next_event_time")))


def _milliseconds(text: object) -> int:
    return round(datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1000)


def _write(directory: str, cuts: Sequence[EventCut]) -> None:
    entries = {
        shown_time(cut.event_time): {
            "checkpoint": f"{NAME}-{cut.step}",
            "step": cut.step,
            "next_event_time": shown_time(cut.next_event_time),
        }
        for cut in cuts
    }
    write_whole(os.path.join(directory, EVENT_CUTS), json.dumps(entries, indent=1) + "\n")
