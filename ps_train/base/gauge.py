"""A value that a feature shows of a job, with all the ways in which it is shown.

    LATE = Gauge("stream.late_rows", "Late rows", metric="late_rows_total", help="Rows that came late.")

The feature declares it once; status page, Prometheus, progress line and result show it without knowing it by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Sample = tuple[Mapping[str, str], Any]
"""Labels and a value of Prometheus; a value of None is left out."""


@dataclasses.dataclass(frozen=True, eq=False)
class Gauge:
    """A value of a job.

    Attributes:
      key: its place in the status and in the result; "stream.growth" is in the section `stream`.
      label: its name on the status page; "": not shown.
      meaning: the explanation of the label.
      text: its value there, with values of the status in braces: "{core.bytes_per_step|bytes} a step", or
        "{is_aggregator?, aggregator}" for a text where a value is true; "": the value.
      metric: its name in Prometheus, after `ps_train_`; a counter's ends with `_total`; "": not shown.
      help: its description there.
      word: its name on the progress line; "": not shown.
      names: the texts that stand for the values 0, 1, ...; none for a number.
      samples: returns the samples of a value for Prometheus.
    """

    key: str
    label: str = ""
    meaning: str = ""
    text: str = ""
    metric: str = ""
    help: str = ""
    word: str = ""
    names: Sequence[str] = ()
    samples: Callable[[Any], Iterable[Sample]] = lambda value: [({}, value)]

    def shown(self, value: Any) -> int | str:
        """Returns a fetched value as users see it."""
        return self.names[int(value)] if self.names else int(value)

    def of(self, status: Mapping[str, Any]) -> Any:
        """Returns the value in a status; None where it is not known."""
        found: Any = status
        for name in self.key.split("."):
            found = (found or {}).get(name)
        return found
