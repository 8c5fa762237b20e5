"""The files of a trace: what Perfetto and TensorBoard read in them."""

from __future__ import annotations

import gzip
import json

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ps_train.observe.profile.trace_file import TraceEvent, write_trace

BASE = 1_795_000_000_000_000_000
ROWS = [
    TraceEvent("worker:1", "1 calls", "step 8", BASE, BASE + 90_000, {}),
    TraceEvent("ps:0", "receive", "concat from worker:1", BASE + 30_000, BASE + 50_500, {"part": "push"}),
    TraceEvent("ps:0", "receive", "other from worker:1", BASE + 40_000, BASE + 60_000, {"part": "push"}),
    TraceEvent("ps:0", "receive", "later", BASE + 50_500, BASE + 70_000, {"part": "push"}),
]


def test_perfetto_gets_named_processes_and_threads(tmp_path):
    path = write_trace(str(tmp_path / "plugins/profile/step-7"), ROWS)
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = {
        e["name"]: (processes[e["pid"]], threads[e["pid"], e["tid"]], e["ts"], e["dur"])
        for e in events
        if e["ph"] == "X"
    }
    assert found == {
        "step 8": ("worker:1", "1 calls", 0, 90),
        "concat from worker:1": ("ps:0", "receive", 30, 20.5),
        "other from worker:1": ("ps:0", "receive (2)", 40, 20),
        "later": ("ps:0", "receive", 50.5, 19.5),
    }


def test_tensorboard_gets_the_same(tmp_path):
    write_trace(str(tmp_path), ROWS)
    space = xplane_pb2.XSpace.FromString((tmp_path / "steps.xplane.pb").read_bytes())
    found = {}
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns + event.offset_ps / 1000
                name = plane.event_metadata[event.metadata_id].name
                found[name] = (plane.name, line.name, begin, event.duration_ps / 1000)
    assert found == {
        "step 8": ("/device:CUSTOM:worker:1", "1 calls", 0, 90_000),
        "concat from worker:1": ("/device:CUSTOM:ps:0", "receive", 30_000, 20_500),
        "other from worker:1": ("/device:CUSTOM:ps:0", "receive (2)", 40_000, 20_000),
        "later": ("/device:CUSTOM:ps:0", "receive", 50_500, 19_500),
    }


def test_no_half_file_is_left_where_nothing_can_be_written(tmp_path):
    (tmp_path / "steps.trace.json.gz.new").mkdir()
    with pytest.raises(OSError):
        write_trace(str(tmp_path), ROWS)
    assert not (tmp_path / "steps.trace.json.gz").exists()
