"""A trace as files: Chrome's trace events, which Perfetto opens, and the XSpace of TensorBoard's trace viewer.

write_trace("runs/a/plugins/profile/step-200", rows)     # steps.trace.json.gz and steps.xplane.pb
"""

from __future__ import annotations

import collections
import gzip
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ps_train.base.whole_file import write_whole


class TraceEvent(NamedTuple):
    """An event: a process (`ps:0`), a lane in it, a name, nanoseconds since 1970, and what else is known of it."""

    process: str
    lane: str
    name: str
    begin: int
    end: int
    details: Mapping[str, Any]


def write_trace(directory: str, rows: Iterable[TraceEvent]) -> str:
    """Writes the files into a directory, whole or not at all; returns the path of the Chrome trace."""
    lanes = _lanes_of(rows)
    origin = min((some[0].begin for by_name in lanes.values() for some in by_name.values()), default=0)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "steps.trace.json.gz")
    write_whole(path, gzip.compress(json.dumps(_chrome_trace(lanes, origin)).encode()))
    write_whole(os.path.join(directory, "steps.xplane.pb"), _xspace(lanes, origin))
    return path


def _lanes_of(rows: Iterable[TraceEvent]) -> dict[str, dict[str, list[TraceEvent]]]:
    """Returns the rows by process and lane; rows of a lane that overlap get further lanes."""
    lanes: dict[str, dict[str, list[TraceEvent]]] = collections.defaultdict(dict)
    for row in sorted(rows, key=lambda row: (row.begin, -row.end)):
        name, number = row.lane, 1
        while (before := lanes[row.process].setdefault(name, [])) and before[-1].end > row.begin:
            number += 1
            name = f"{row.lane} ({number})"
        before.append(row)
    return lanes


def _numbered(
    lanes: Mapping[str, Mapping[str, Sequence[TraceEvent]]],
) -> list[tuple[int, int, str, str, Sequence[TraceEvent]]]:
    return [
        (pid, tid, process, lane, some)
        for pid, process in enumerate(sorted(lanes), start=1)
        for tid, (lane, some) in enumerate(sorted(lanes[process].items()), start=1)
    ]


def _chrome_trace(lanes: Mapping[str, Mapping[str, Sequence[TraceEvent]]], origin: int) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    for pid, tid, process, lane, some in _numbered(lanes):
        place: dict[str, Any] = {"pid": pid, "tid": tid}
        events.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}})
        events.append({"ph": "M", **place, "name": "thread_name", "args": {"name": lane}})
        events.append({"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": tid}})
        for row in some:
            times = {"ts": (row.begin - origin) / 1e3, "dur": (row.end - row.begin) / 1e3}
            events.append({"ph": "X", **place, **times, "name": row.name, "args": dict(row.details)})
    return {"displayTimeUnit": "ms", "otherData": {"begin_ns": str(origin)}, "traceEvents": events}


def _xspace(lanes: Mapping[str, Mapping[str, Sequence[TraceEvent]]], origin: int) -> bytes:
    """Returns TensorFlow's `XSpace`: a plane for each process, with a line for each lane.

    TensorFlow has no public class for it, so the fields are encoded here by their numbers in xplane.proto.
    """
    planes: dict[int, bytes] = {}
    names: dict[int, dict[str, int]] = collections.defaultdict(dict)
    for pid, tid, process, lane, some in _numbered(lanes):
        planes.setdefault(pid, _number(1, pid) + _text(2, f"/device:CUSTOM:{process}"))
        events = bytearray()
        for row in some:
            number = names[pid].setdefault(row.name, len(names[pid]) + 1)
            since = _number(2, (row.begin - some[0].begin) * 1000) + _number(3, (row.end - row.begin) * 1000)
            events += _field(4, _number(1, number) + since)
        planes[pid] += _field(3, _number(1, tid) + _text(2, lane) + _number(3, some[0].begin - origin) + bytes(events))
    for pid, by_name in names.items():
        for name, number in by_name.items():
            planes[pid] += _field(4, _number(1, number) + _field(2, _number(1, number) + _text(2, name)))
    return b"".join(_field(1, plane) for plane in planes.values())


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode())
