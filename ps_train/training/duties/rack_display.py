"""What racks show: the rack of each worker, who adds up its gradients, and the bytes that cross between racks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ps_train.base.gauge import Gauge
from ps_train.cluster.membership.records import TaskState, TaskStatus
from ps_train.cluster.membership.succession import Aggregator, aggregator_key
from ps_train.cluster.topology import FLAT, Topology
from ps_train.engine.variables.plan import Plan
from ps_train.observe.status.display import Display
from ps_train.observe.status.tasks import ENDED


class RackDisplay(Display):
    """The racks of a job, as far as its chief knows them."""

    gauges = (
        Gauge("core", "Between racks",
              "Bytes of values and gradients that cross from rack to rack in a step, by the plan.",
              "{core.bytes_per_step|bytes} a step ({core.flat_bytes_per_step|bytes} without racks)"),
    )  # fmt: skip
    columns = (
        Gauge("rack", "Rack", "Workers of a rack add up their gradients on one of them, the aggregator.",
              "{rack}{is_aggregator?, aggregator}"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._topology = FLAT
        self._bytes: tuple[int, int] | None = None
        self._aggregators: dict[str, Aggregator] = {}

    def found(self, topology: Topology, plan: Plan) -> None:
        """Takes in the racks; the bytes between them follow from the plan, where the racks of the ps are known."""
        self._topology, sizes = topology, plan.bytes_per_ps()
        if not topology.is_flat and topology.knows_ps(len(sizes)):
            self._bytes = topology.core_bytes(sizes)

    def read_records(self, items: Mapping[str, str]) -> None:
        """Takes in the aggregators."""
        begin = aggregator_key("")
        found = {key.removeprefix(begin): text for key, text in items.items() if key.startswith(begin)}
        self._aggregators |= {rack: Aggregator.from_json(text) for rack, text in found.items()}

    def values(self, status: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """Returns the bytes that cross from rack to rack; none where the racks of the ps are not known."""
        if self._bytes is None:
            return {}
        (crossing, flat), steps = self._bytes, status["steps_per_sec"]
        rate = None if steps is None else crossing * steps
        return {"core": {"bytes_per_step": crossing, "flat_bytes_per_step": flat, "bytes_per_sec": rate}}

    def of_worker(self, task: str, status: TaskStatus | None, state: str) -> Mapping[str, Any]:
        """Returns the rack of a worker, and whether it adds up the gradients there."""
        rack, is_there = self._rack_of(task, status), state not in ("lost", TaskState.LEFT, ENDED)
        is_aggregator = is_there and status is not None and self._is_aggregator(status, rack)
        return {"rack": rack or None, "is_aggregator": is_aggregator}

    def waits_for(self, status: TaskStatus, living: Callable[[str], TaskStatus | None]) -> str:
        """Returns "the rack" where the workers of a rack cannot meet: no living aggregator has let them in."""
        rack = self._rack_of(status.task, status)
        role = self._aggregators.get(rack)
        holder = living(role.task) if role is not None and role.is_ready else None
        is_met = holder is not None and self._is_aggregator(holder, rack)
        return "the rack" if rack and not is_met else ""

    def _rack_of(self, task: str, status: TaskStatus | None) -> str:
        return self._topology.racks.get(task) or (status.rack if status is not None else "")

    def _is_aggregator(self, status: TaskStatus, rack: str) -> bool:
        role = self._aggregators.get(rack)
        return role is not None and role.process_id == status.process_id
