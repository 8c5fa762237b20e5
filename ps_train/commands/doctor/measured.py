"""Findings about the measurements of a ps.  Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from ps_train.base.remote_files import scheme_of
from ps_train.cluster.sessions.ps_speed import weights_of
from ps_train.commands.doctor.findings import FAIL, OK, WARN, Finding
from ps_train.commands.doctor.network import Answer, advice_for
from ps_train.commands.doctor.transport import PsMeasurement
from ps_train.config.job import Job
from ps_train.engine.variables.plan import human_bytes
from ps_train.observe.status.measured_network import write_network

SLOW_TRIP_SECS, SLOW_BYTES_PER_SEC, MOST_OFFSET_SECS = 0.02, 20 << 20, 1.0
"""From these values on a finding is a warning."""


def measured_findings(one: PsMeasurement, versions: Mapping[str, str], task: str) -> list[Finding]:
    """Returns the findings about one ps.

    Args:
      one: its measurements.
      versions: of this host.
      task: this task, for the texts.
    """
    subject = f"{one.name} ({one.address})"
    if one.answer is not Answer.GRPC:
        return [Finding(FAIL, "reach", f"{subject}: {one.text}", advice_for(one.answer))]
    if one.refused:
        return [Finding(FAIL, "reach", one.refused.rstrip("."))]
    if one.record is None and one.running is None:
        text = f"{subject}: {one.problem or one.text}"
        return [Finding(FAIL, "reach", text, "stop that program or use another port")]
    found = [_reach(one, subject, task)]
    if one.problem:
        found.append(
            Finding(FAIL, "transport", f"{subject}: {one.problem}", f"open the ports between {one.name} and {task}")
        )
    if one.round_trip is not None:
        found.append(_trip(one, subject))
    if one.clock_offset is not None:
        found.append(_clock(one, subject))
    if one.record is not None:
        found.append(versions_finding(one.record.versions, versions, subject))
    return found


def _reach(one: PsMeasurement, subject: str, task: str) -> Finding:
    if one.record is not None:
        return Finding(OK, "reach", f"{subject} is reached from {task}: its doctor answers on {one.record.host}")
    assert one.running is not None
    text = f"{subject}: a ps of a running job answers (on {one.running.host}, pid {one.running.pid})"
    return Finding(WARN, "reach", f"{text}; its throughput is not measured", "end that job first if it is not this one")


def _trip(one: PsMeasurement, subject: str) -> Finding:
    assert one.round_trip is not None
    text = f"{subject}: round trip {1e3 * one.round_trip:.2f} ms"
    if one.pull and one.push:
        text += f"; pull {human_bytes(one.pull)}/s, push {human_bytes(one.push)}/s"
    slow = one.round_trip > SLOW_TRIP_SECS or any(v and v < SLOW_BYTES_PER_SEC for v in (one.pull, one.push))
    if slow:
        return Finding(
            WARN, "transport", text, "every step waits for it; bring the machines closer or use larger batches"
        )
    return Finding(OK, "transport", text)


def table_of_ways(found: Iterable[PsMeasurement], is_here: Callable[[str], bool]) -> str:
    """Returns the measured ways to the ps as a table: bandwidth, delay and CPU share; "" without any.

    Args:
      found: the measurements.
      is_here: returns True for the name or address of this machine.
    """
    rows = [["way", "direction", "bandwidth", "delay", "CPU share"]]
    for one in found:
        if one.round_trip is None or not one.pull or not one.push:
            continue
        way = "inside this host" if is_here(one.address.host) else f"to {one.address.host}"
        delay = f"{1e3 * one.round_trip / 2:.2f} ms"
        for direction, rate, cpu in (("pull", one.pull, one.pull_cpu), ("push", one.push, one.push_cpu)):
            rows.append([f"TCP {way}, {one.name}", direction, f"{human_bytes(rate)}/s", delay, f"{cpu or 0:.2f} cores"])
    if len(rows) == 1:
        return ""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def weights_finding(found: Sequence[PsMeasurement], job: Job) -> list[Finding]:
    """Returns the finding about ps that move their bytes at different speeds; none where they are alike.

    Args:
      found: the measurements of all ps.
      job: has the present `ps_weights`.
    """
    rates = [min(one.pull, one.push) for one in found if one.pull and one.push]
    weights = weights_of(rates) if len(rates) == len(found) else ""
    if not weights:
        return []
    slowest = found[rates.index(min(rates))].name
    text = f"{slowest} moves {min(rates) / max(rates):.2g} of the bytes/s of the fastest ps"
    if job.ps_weights:
        return [Finding(OK, "weights", f"{text}; measured {weights}, ps_weights={job.ps_weights}")]
    return [Finding(WARN, "weights", text, f"--ps_weights={weights} gives each ps variables by its speed")]


def _clock(one: PsMeasurement, subject: str) -> Finding:
    assert one.clock_offset is not None and one.round_trip is not None
    ahead = "ahead of" if one.clock_offset >= 0 else "behind"
    text = f"{subject} is {abs(one.clock_offset):.4f}s {ahead} this host (± {one.round_trip / 2:.4f}s)"
    if abs(one.clock_offset) > MOST_OFFSET_SECS:
        return Finding(
            WARN, "clock", text, "set the clocks by NTP; times in logs and event files will not fit together"
        )
    return Finding(OK, "clock", text)


def versions_finding(theirs: Mapping[str, str], ours: Mapping[str, str], subject: str) -> Finding:
    """Returns the finding about the versions of another host."""
    different = [
        f"{name} {theirs.get(name, 'missing')} there, {ours.get(name, 'missing')} here"
        for name in sorted({*theirs, *ours}, key=str.lower)
        if theirs.get(name) != ours.get(name)
    ]
    if not different:
        return Finding(OK, "versions", f"{subject} has the same versions")
    must_agree = any(
        _release(theirs.get(name, "")) != _release(ours.get(name, "")) for name in ("TensorFlow", "ps_train")
    )
    text = f"{subject}: {'; '.join(different)}"
    return Finding(FAIL if must_agree else WARN, "versions", text, "install the same versions on all hosts")


def _release(version: str) -> list[str]:
    return version.split(".")[:2]


def keep_measured(found: Iterable[PsMeasurement], model_dir: str) -> None:
    """Writes the measured throughput into the model directory, for the rules of health."""
    rates = {one.name: (one.pull, one.push) for one in found if one.pull and one.push}
    if rates and model_dir and not scheme_of(model_dir):
        with contextlib.suppress(OSError):  # the finding on the disk tells why
            write_network(model_dir, rates)
