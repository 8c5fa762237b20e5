"""The record of one worker's traced steps, as it travels to the chief, and what the chief makes of all of them."""

from __future__ import annotations

import base64
import collections
import dataclasses
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ps_train.base.errors import shown
from ps_train.base.untrusted import UntrustedError, is_of, parse_json
from ps_train.cluster.sessions.ps_clocks import Offset
from ps_train.observe.profile.step_parts import PARTS, TRACING, Segment, Span, copy_of, parts_of, segments_of, spans_of
from ps_train.observe.profile.step_tracer import TracedCall
from ps_train.observe.profile.trace_file import TraceEvent

_MOST_SPANS = 200_000
"""The longest spans of a record are kept; this many take about 3 MB."""
_HEAVIEST = 10
_MOST_BYTES = 1 << 28
_FIELDS = {
    **dict.fromkeys(("calls", "segments", "spans"), "list[list]"),
    "task": "str",
    "clock": "list[int]",
    "untraced_secs": "float",
    "left_out": "int",
}
_ROWS = {"calls": "call", "segments": "Segment", "spans": "Span"}
_ROW_TYPES: Mapping[str, tuple[Callable[..., Any], Sequence[str]]] = {
    "call": (lambda *values: values, ["int"] * 4),
    "Offset": (Offset, ["int"] * 2),
    "Segment": (Segment, ["str", "int", "int"]),
    "Span": (Span, ["str", "str", "str", "int", "int", "str", "str"]),
}
_BRANCH = re.compile(r"/_\d+(?=/|$)")
"""TensorFlow adds this to names inside of a `cond`."""


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """The traced steps of one worker; times are nanoseconds since 1970 by its own clock.

    Attributes:
      task: the worker.
      clock: the clock of ps 0: how far the worker's is ahead of it, and the largest uncertainty of all ps.
      untraced_secs: seconds of a step before the recording; 0 if it is not known.
      calls: for each call the global step before it, its steps, its beginning and its end.
      segments: the parts of the calls.
      spans: the operations and transfers of the calls.
      left_out: number of short spans that were left out.
    """

    task: str
    clock: Offset
    untraced_secs: float
    calls: Sequence[tuple[int, int, int, int]]
    segments: Sequence[Segment]
    spans: Sequence[Span]
    left_out: int = 0

    @classmethod
    def of(
        cls, task: str, calls: Sequence[TracedCall], clocks: Mapping[str, Offset], untraced_secs: float
    ) -> StepRecord:
        """Makes the record of a worker's calls."""
        offsets = {ps: offset.ahead for ps, offset in clocks.items()}
        clock = Offset(clocks["ps:0"].ahead, max(offset.uncertainty for offset in clocks.values()))
        spans, segments = list[Span](), list[Segment]()
        for before, call in zip([None, *calls], calls, strict=False):
            began = before.ended if before else call.began  # nothing between two calls is left out
            found = spans_of(call.step_stats, task, offsets)
            segments += segments_of(found, began, call.ended, call.expected_end)
            spans += [span for span in found if span.part != "other"]
        kept = sorted(spans, key=lambda span: span.begin - span.end)[:_MOST_SPANS]
        lines = [(call.step, call.steps, call.began, call.ended) for call in calls]
        return cls(task, clock, untraced_secs, lines, segments, kept, len(spans) - len(kept))

    def to_text(self) -> str:
        """Returns the record as text, compressed."""
        return base64.b64encode(zlib.compress(json.dumps(dataclasses.asdict(self)).encode())).decode()

    @classmethod
    def from_text(cls, text: str) -> StepRecord:
        """Returns the record of a text; raises UntrustedError for another text."""
        try:
            packed, unpacking = base64.b64decode(text, validate=True), zlib.decompressobj()
            unpacked = unpacking.decompress(packed, _MOST_BYTES)
        except (ValueError, zlib.error) as error:
            raise UntrustedError(f"it is not compressed text ({error})") from None
        if not unpacking.eof:
            raise UntrustedError(f"it is cut off, or larger than {_MOST_BYTES} bytes")
        found = parse_json(unpacked, _MOST_BYTES)
        if not isinstance(found, dict) or not all(is_of(kind, found.get(name)) for name, kind in _FIELDS.items()):
            raise UntrustedError("it has not the fields of a record")
        made = {name: [_row(kind, some) for some in found[name]] for name, kind in _ROWS.items()}
        if not made["calls"] or any(steps < 1 for _, steps, _, _ in made["calls"]):
            raise UntrustedError("it has no steps")
        if strange := {segment.part for segment in made["segments"]} - {*PARTS, TRACING}:
            raise UntrustedError(f"it has the unknown part {shown(min(strange))}")
        return cls(**{**{name: found[name] for name in _FIELDS}, **made, "clock": _row("Offset", found["clock"])})

    @property
    def steps(self) -> int:
        """Returns the number of recorded steps."""
        return sum(steps for _, steps, _, _ in self.calls)

    def parts(self) -> dict[str, float]:
        """Returns the seconds of each part in a step, of their sum ("step"), and of what was added ("tracing")."""
        spent = {part: secs / self.steps for part, secs in parts_of(self.segments).items()}
        step, whole = sum(spent.values()), (self.calls[-1][3] - self.calls[0][2]) / 1e9 / self.steps
        return spent | {"step": step, TRACING: whole - step}

    def rows(self, chief: Offset) -> Iterator[TraceEvent]:
        """Yields the events of the trace, by the chief's clock, of which `chief` is the offset to ps 0."""
        ahead = self.clock.ahead - chief.ahead
        for step, steps, began, ended in self.calls:
            name = f"step {step + 1}" if steps == 1 else f"steps {step + 1} to {step + steps}"
            yield TraceEvent(self.task, "1 calls", name, began - ahead, ended - ahead, {})
        for part, began, ended in self.segments:
            yield TraceEvent(self.task, "2 parts", part, began - ahead, ended - ahead, {})
        for span in self.spans:
            kind = "wait" if span.part == "wait" else "receive" if span.source else "operations"
            lane = f"3 {kind}" if span.task == self.task else f"{self.task} {kind}"
            name = f"{span.name} from {span.source}" if span.source else span.name
            details = {"part": span.part, "type": span.op, "of": self.task}
            yield TraceEvent(span.task, lane, name, span.begin - ahead, span.end - ahead, details)


def _row(kind: str, values: Sequence[Any]) -> Any:
    """Makes a row of a record; raises UntrustedError for values of other types."""
    made, types = _ROW_TYPES[kind]
    if len(values) != len(types) or not all(is_of(one, value) for one, value in zip(types, values, strict=True)):
        raise UntrustedError(f"it has {shown(values)} for a row of {kind}")
    return made(*values)


def table_of(records: Sequence[StepRecord]) -> str:
    """Returns the parts of each worker's step, and the heaviest operations of each side; milliseconds per step."""
    columns = [*PARTS, "step", "untraced", TRACING]
    lines = [f"{'ms per step':<12}" + "".join(f"{name:>9}" for name in columns)]
    for record in records:
        spent = record.parts() | {"untraced": record.untraced_secs}
        lines.append(f"{record.task:<12}" + "".join(f"{spent[name] * 1e3:9.3f}" for name in columns))
    steps = sum(record.steps for record in records)
    for side in ("worker", "ps"):
        spent_by: collections.Counter[str] = collections.Counter()
        for record in records:
            for span in record.spans:
                if not span.source and span.part != "wait" and (span.task == record.task) == (side == "worker"):
                    name = _BRANCH.sub("", span.name.removeprefix(copy_of(span.name) + "/"))
                    spent_by[f"{span.op} {name}"] += span.end - span.begin
        lines.append(f"heaviest operations of {'workers' if side == 'worker' else 'ps'}, ms per step of a worker:")
        lines += [f"{spent / steps / 1e6:9.3f}  {name}" for name, spent in spent_by.most_common(_HEAVIEST)]
    return "\n".join(lines)
