"""The interface of a display: what a feature shows of a job on the status page, in its JSON and for Prometheus.

    class Restarts(Display):
        gauges = (Gauge("restarts", "Restarts", metric="restarts_total", help="Restarts of the job."),)

        def values(self, status, now):
            return {"restarts": self._count}

    displays = Displays([Restarts(), ...])      # in the order in which the page shows them

The board, the page, Prometheus and the rules of health know no feature by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ps_train.base.gauge import Gauge
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.records import TaskStatus
from ps_train.engine.variables.plan import Plan

_Display = TypeVar("_Display", bound="Display")


class Display:
    """What a feature shows.  The methods of this class show nothing; they are called under the lock of the tasks.

    Attributes:
      gauges: its values of the job.
      columns: its columns in the table of workers; their keys are those of `of_worker`.
      processes: its keys of workers that name a ps in the same process, with a sentence about such workers as label.
      exempt: rules of health that say nothing of such a job.
    """

    gauges: Sequence[Gauge] = ()
    columns: Sequence[Gauge] = ()
    processes: Sequence[Gauge] = ()
    exempt: Sequence[str] = ()

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """Takes in the placement of the variables, and the tasks; again when the plan is another."""

    def read_records(self, items: Mapping[str, str]) -> None:
        """Takes in the records of ps 0."""

    def measured(self, task: str, record: Mapping[str, Any]) -> None:
        """Takes in the telemetry of a task.

        Raises:
          UntrustedError: it is of another form.
        """

    def values(self, status: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """Returns its values by key.

        Args:
          status: the status so far; None for values that no display has given yet.
          now: seconds of a monotonic clock; infinite if the job is over.
        """
        return {}

    def of_worker(self, task: str, status: TaskStatus | None, state: str) -> Mapping[str, Any]:
        """Returns its values of a worker by key.

        Args:
          task: the worker.
          status: its last record; None before the first one.
          state: as shown.
        """
        return {}

    def waits_for(self, status: TaskStatus, living: Callable[[str], TaskStatus | None]) -> str:
        """Returns what a task that starts or recovers waits for, such as "the disk"; "" for nothing.

        Args:
          status: the last record of the task.
          living: returns the last record of a task by its name; None if it is lost.
        """
        return ""


class Displays(tuple[Display, ...]):
    """What all features show; the order is that on the page."""

    def of(self, kind: type[_Display]) -> list[_Display]:
        """Returns the displays of a class: none, or one."""
        return [display for display in self if isinstance(display, kind)]

    def every(self, name: str) -> list[Gauge]:
        """Returns the `gauges`, `columns` or `processes` of all."""
        return [gauge for display in self for gauge in getattr(display, name)]

    def described(self) -> dict[str, Any]:
        """Returns what the page must know of them, for JSON."""
        names = ("gauges", "columns", "processes")
        return {name: [_described(gauge) for gauge in self.every(name) if gauge.label] for name in names}


def _described(gauge: Gauge) -> dict[str, str]:
    return {name: getattr(gauge, name) for name in ("key", "label", "text", "meaning")}
