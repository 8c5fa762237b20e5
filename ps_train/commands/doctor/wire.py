"""Bytes that a step pulls and pushes, and their time on the measured network.  Pure.

wire_finding(planned.traffic, found, job)       # [Finding(OK, "wire", "a step pulls 3.8 MiB and …")]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ps_train.base.console import human_bytes
from ps_train.commands.doctor.findings import OK, Finding
from ps_train.commands.doctor.transport import PsMeasurement
from ps_train.config.codec_spec import NONE, bytes_per_value
from ps_train.config.job import Job
from ps_train.config.refusals import is_possible

_WORTH_SECS, _FEWER = 0.005, 0.9
"""Seconds on the wire from which on other codecs are named; share of them that a named codec takes at most."""

_CODECS = (("bfloat16", "bfloat16"), ("bfloat16", "int8"), ("int8", "int8"), ("bfloat16", "top_k:0.01"))
"""Codecs of pull and push to name, the one that loses least first."""


class Traffic(NamedTuple):
    """The dense values that a step pulls, and pushes.

    Attributes:
      whole: bytes of all of them without codecs.
      pulled, pushed: numbers of the float32 values that a codec of the pull and of the push encodes.
    """

    whole: int = 0
    pulled: int = 0
    pushed: int = 0

    def on_wire(self, codecs: tuple[str, str]) -> tuple[float, float]:
        """Returns the bytes of a pull and of a push with these codecs."""
        pull, push = (bytes_per_value(codec) - bytes_per_value(NONE) for codec in codecs)
        return self.whole + self.pulled * pull, self.whole + self.pushed * push


def wire_finding(traffic: Traffic, found: Sequence[PsMeasurement], job: Job) -> list[Finding]:
    """Returns the finding about the bytes of a step; none without bytes or a measured way.

    The CPU time of another codec is not known here.

    Args:
      traffic: the values that a step pulls from all ps, and pushes.
      found: the measurements of the ps, of which the slowest way counts.
      job: the job, for its codecs.
    """
    rates = [(one.pull, one.push) for one in found if one.pull and one.push]
    if not rates or not traffic.whole:
        return []
    slowest = [min(some) for some in zip(*rates, strict=True)]

    def secs(codecs: tuple[str, str]) -> float:
        return sum(count / rate for count, rate in zip(traffic.on_wire(codecs), slowest, strict=True))

    codecs = job.pull_codec, job.push_codecs[0]
    pull, push = traffic.on_wire(codecs)
    text = f"a step pulls {human_bytes(pull)} and pushes {human_bytes(push)}: {1e3 * secs(codecs):.1f} ms"
    fewer = [
        other
        for other in _CODECS
        if secs(other) < _FEWER * secs(codecs) and is_possible(job, pull_codec=other[0], push_codec=other[1])
    ]
    if secs(codecs) < _WORTH_SECS or not fewer:
        return [Finding(OK, "wire", text)]
    times = [f"{1e3 * secs(other):.1f} ms with --pull_codec={other[0]} --push_codec={other[1]}" for other in fewer]
    return [Finding(OK, "wire", text, ", ".join(times))]
