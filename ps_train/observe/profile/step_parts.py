"""Parts of a step's time, from TensorFlow's step statistics of one call.

spans = spans_of(run_metadata.step_stats, "worker:1", {"ps:0": offset_ns})
segments = segments_of(spans, began_ns, ended_ns)     # every instant of the call belongs to exactly one part
parts = parts_of(segments)                            # {"input": 0.0004, ...}: they add up to the call

A ps works through a step in a fixed order, so the time of an operation there tells its part: values are read, the push
arrives, the mutex is acquired, the update is made, and the step may wait at a token gate.
"""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

PARTS = ("input", "pull", "compute", "push", "wait", "update", "other")
"""The parts: `wait` is for other workers, `other` is TensorFlow's and Python's cost of a call."""

TRACING = "tracing"
"""The time in which TensorFlow collects a trace: no part of a step."""

_PRECEDENCE = ("compute", "update", "push", "pull", "wait", "input", "other")
"""The part to which an instant belongs where several are under way: the worker's own work, then what it waits for."""

_EDGE = re.compile(r"edge_\d+_(.*) from (\S+) to (\S+)$")
_LABEL = re.compile(r"(?:\[[^]]*\] )?\S+ = (\w+)\(")  # large outputs: "[cpu 2.1MB 2.1MB] name = MatMul(a, b)"
_DEVICE = re.compile(r"/job:(\w+)/.*task:(\d+)")
_JOBS_OF_WORKERS = ("worker", "chief", "local", "localhost")
_OF_WORKER = re.compile(r"CPU:[1-9]|GPU:")
_COPY = re.compile(
    r"(?:\w+Optimizer/|ConstantFolding\w*/)?(step_\d+(?:_\d+)?|rounds_\d+_\d+/\d+(?:/pull_after)?|pull_after)/"
)
_HOST_TO_DEVICE = re.compile(r"memcpyh(?:to|2)d", re.IGNORECASE)
"""Copies, as TensorFlow's tracer of GPUs names them."""
_START = ("_SOURCE", "Const", "VarHandleOp", "IteratorV2", "NoOp")
"""Operations on the worker that run when a call begins, before the step has anything to work with."""
_STEPS_LOOP, _BATCHES_LOOP = "local", "front"
"""Last parts of the names of loops of a round's steps, and of its reads (`engine/step/local_calls.py`).

TensorFlow does not trace what is in them.
"""


class Span(NamedTuple):
    """An operation or a transfer.

    Attributes:
      task: where it ran; for a transfer the receiver.
      name: name of the operation; of a transfer the sent operation's.
      op: type of the operation; "RecvTensor" for a transfer.
      begin, end: nanoseconds since 1970 by the worker's clock.
      part: its part of the step.
      source: the sender of a transfer, else "".
    """

    task: str
    name: str
    op: str
    begin: int
    end: int
    part: str = "other"
    source: str = ""


class Segment(NamedTuple):
    """A stretch of a call that belongs to one part; nanoseconds since 1970."""

    part: str
    begin: int
    end: int


def spans_of(step_stats: Any, task: str, offsets: Mapping[str, int]) -> list[Span]:
    """Returns the spans of a call with their parts, in the order of their beginnings.

    Args:
      step_stats: TensorFlow's `StepStats`.
      task: the worker that made the call.
      offsets: by ps, nanoseconds that the worker's clock is ahead of the ps's clock.
    """
    spans = []
    for device in step_stats.dev_stats:
        where = _task_of(device.device, task)
        offset = offsets.get(where, 0)
        for node in device.node_stats:
            begin = (node.all_start_nanos or node.all_start_micros * 1000) + offset
            end = begin + (node.all_end_rel_nanos or node.all_end_rel_micros * 1000)
            if edge := node.node_name == "RecvTensor" and _EDGE.search(node.timeline_label):
                spans.append(Span(where, edge[1], "RecvTensor", begin, end, source=_task_of(edge[2], task)))
            else:
                spans.append(Span(where, node.node_name, _op_of(node.timeline_label), begin, end))
    return _with_parts(sorted(_with_sends(spans), key=lambda span: span.begin), task)


@functools.cache
def _op_of(label: str) -> str:
    found = _LABEL.match(label)
    return found[1] if found else label


def _task_of(device: str, task: str) -> str:
    """Returns the name of a ps, or the job of another server that the worker meets; other devices are its own.

    CPU:1 of a ps is the worker's in the same process.
    """
    found = _DEVICE.search(device)
    if found is None or found[1] in _JOBS_OF_WORKERS or (found[1] == "ps" and _OF_WORKER.search(device)):
        return task
    return f"ps:{found[2]}" if found[1] == "ps" else found[1]


def _with_sends(spans: list[Span]) -> list[Span]:
    """Lets transfers begin when the sent value was ready.

    TensorFlow gives the time by the sender's clock, which need not be the receiver's.
    """
    ends = collections.defaultdict(list)
    for span in spans:
        if not span.source:
            ends[span.task, span.name].append(span.end)
    found = []
    for span in spans:
        ready = ends[span.source, span.name] if span.source else []
        begin = min(max((end for end in ready if end <= span.end), default=min(ready, default=span.begin)), span.end)
        found.append(span._replace(begin=begin) if ready else span)
    return found


@functools.cache
def copy_of(name: str) -> str:
    """Returns the name of the operation's step of a call, or of its section of a round; "" for the first one.

    See `engine/step/unroll.py` and `engine/step/local_calls.py`.
    """
    found = _COPY.match(name)
    return found[1] if found else ""


def _with_parts(spans: list[Span], task: str) -> list[Span]:
    pulled, locked, pushed = dict[str, int](), dict[tuple[str, str], int](), dict[tuple[str, str], int]()
    for span in spans:
        if span.op == "MutexLock":
            locked.setdefault((span.task, copy_of(span.name)), span.begin)
    for span in spans:
        copy = copy_of(span.name)
        if span.source and span.task == task and span.begin < locked.get((span.source, copy), span.end):
            pulled[copy] = span.begin
    found = []
    for span in spans:
        copy = copy_of(span.name)
        key = span.task, copy
        if span.task == task:
            part = _part_on_worker(span, span.begin <= pulled.get(copy, span.begin))
        elif span.source == task:  # rows are asked for before they are pulled
            part = "push" if span.begin >= pulled.get(copy, 0) else "pull"
            if part == "push":
                pushed.setdefault(key, span.end)
        elif span.op in ("MutexLock", "QueueDequeueV2"):
            part = "wait"
        elif span.source or (key in locked and span.begin >= locked[key]):
            part = "update"
        else:
            part = "push" if key in pushed and span.begin >= pushed[key] else "pull"
        found.append(span._replace(part=part))
    return list(_with_loops(found, task))


def _with_loops(spans: list[Span], task: str) -> Iterator[Span]:
    """Yields spans in which a loop of local steps is divided as the other steps of the call are, on average."""
    spent = collections.Counter[str]()
    for span in spans:
        if span.task == task and span.op != "While":
            spent[span.part] += span.end - span.begin
    share = spent["input"] / max(1, spent["input"] + spent["compute"])
    for span in spans:
        name = span.name.rpartition("/")[2] if span.task == task and span.op == "While" else ""
        if name == _BATCHES_LOOP:
            yield span._replace(part="input")
        elif name == _STEPS_LOOP and share:
            middle = span.begin + round(share * (span.end - span.begin))
            yield from (span._replace(part="input", end=middle), span._replace(part="compute", begin=middle))
        else:
            yield span


def _part_on_worker(span: Span, is_pulled: bool) -> str:
    if span.source:
        return "pull" if is_pulled else "other"  # what hooks fetch from a ps after the update
    if span.op.startswith("IteratorGetNext"):
        return "input"
    return "other" if span.op in _START else "compute"


def segments_of(spans: Iterable[Span], began: int, ended: int, expected_end: int = 0) -> list[Segment]:
    """Divides a call into parts; a pause between two spans belongs to the part that ended last.

    Args:
      spans: the spans of the call.
      began: its beginning, nanoseconds since 1970 by the worker's clock.
      ended: its end.
      expected_end: its end if it were not traced.  What comes later, and after the last span, belongs to TRACING.
    """
    last = min(max((span.end for span in spans), default=began), ended)
    cut = min(max(expected_end, last, began), ended)
    segments = _divided(spans, began, cut, last)
    return [*segments, Segment(TRACING, cut, ended)] if cut < ended else segments


def _divided(spans: Iterable[Span], began: int, ended: int, last: int) -> list[Segment]:
    edges = sorted({began, ended, *(min(max(t, began), ended) for span in spans for t in (span.begin, span.end))})
    pending = sorted((span.begin, _PRECEDENCE.index(span.part), span.end) for span in spans)
    under_way: list[tuple[int, int]] = []  # a heap of precedence and end
    segments: list[Segment] = []
    part, position = "other", 0
    for begin, end in itertools.pairwise(edges):
        while position < len(pending) and pending[position][0] <= begin:
            heapq.heappush(under_way, pending[position][1:])
            position += 1
        while under_way and under_way[0][1] <= begin:
            heapq.heappop(under_way)
        if under_way:
            part = _PRECEDENCE[under_way[0][0]]
        elif begin >= last:
            part = "other"
        if segments and segments[-1].part == part:
            segments[-1] = segments[-1]._replace(end=end)
        else:
            segments.append(Segment(part, begin, end))
    return segments


def parts_of(segments: Iterable[Segment]) -> dict[str, float]:
    """Returns the seconds of each part."""
    nanoseconds = dict.fromkeys([*PARTS, TRACING], 0)
    for segment in segments:
        nanoseconds[segment.part] += segment.end - segment.begin
    return {part: nanoseconds[part] / 1e9 for part in PARTS}


def copy_secs(step_stats: Any) -> float:
    """Returns the seconds in which values were on their way from the host to a device; 0 without such a device."""
    copies = sorted(
        (node.all_start_micros, node.all_start_micros + node.all_end_rel_micros)
        for device in step_stats.dev_stats
        for node in device.node_stats
        if _HOST_TO_DEVICE.search(node.node_name) or _HOST_TO_DEVICE.search(node.timeline_label)
    )
    total = until = 0
    for begin, end in copies:  # several streams copy at the same time
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total / 1e6
