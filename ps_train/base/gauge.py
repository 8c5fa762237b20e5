"""A value that a feature shows of a job, with all the ways in which it is shown.

    LATE = Gauge("stream.late_rows", "late_rows_total", "Rows that came late.", label="Late rows")

The feature declares it once; status page, Prometheus, progress line and result show it without knowing it by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Sample = tuple[Mapping[str, str], Any]
"""Labels and a value of Prometheus; a value of None is left out."""


def one_sample(value: Any) -> Iterable[Sample]:
    """Returns the value without labels."""
    return [({}, value)]


@dataclasses.dataclass(frozen=True, eq=False)
class Gauge:
    """A value of a job.

    Attributes:
      key: its place in the status and in the result; "stream.growth" is in the section `stream`.
      metric: its name in Prometheus, after `ps_train_`; a counter's ends with `_total`; "": not shown.
      help: its description there.
      label: its name on the status page; "": not shown.
      text: its value there, with values of the status in braces: "{core.bytes_per_step|bytes} a step"; "": as it is.
      meaning: the explanation of the label.
      word: its name on the progress line; "": not shown.
      names: the texts that stand for the values 0, 1, ...; none for a number.
      samples: returns the samples of a value for Prometheus.
    """

    key: str
    metric: str = ""
    help: str = ""
    label: str = ""
    text: str = ""
    meaning: str = ""
    word: str = ""
    names: Sequence[str] = ()
    samples: Callable[[Any], Iterable[Sample]] = one_sample

    def shown(self, value: Any) -> int | str:
        """Returns a fetched value as users see it."""
        return self.names[int(value)] if self.names else int(value)

    def of(self, status: Mapping[str, Any]) -> Any:
        """Returns the value in a status; None where it is not known."""
        found: Any = status
        for name in self.key.split("."):
            found = None if found is None else found.get(name)
        return found
