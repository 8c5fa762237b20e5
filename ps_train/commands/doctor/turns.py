"""Turns of the doctors of a job with racks: one worker of a rack measures alone, and no two racks at the same time.

    with turn(topology, "worker:2", ps, time.monotonic() + 60):
        found = measure_all(...)

All ways from a rack to the others share its way into the core, so doctors that measure them at the same time would each
find a part of its bandwidth.  The first worker of each rack takes the turn by a record in the store of the first ps's
doctor; the others of its rack wait until it has been seen at the last ps.  Nobody waits longer than the deadline.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from ps_train.base.errors import LostTaskError, RefusedError
from ps_train.base.polling import poll_until
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.topology import Topology
from ps_train.commands.doctor.network import Answer, probe
from ps_train.commands.doctor.transport import RECORD

_TURN, _FREE = "doctor_turn", "free"
_POLL_SECS, _CALL_SECS = 0.25, 5.0


@contextlib.contextmanager
def turn(topology: Topology, task: str, ps: Sequence[Address], deadline: float) -> Iterator[bool]:
    """Waits for the turn of a worker, and gives it back after the body.

    Args:
      topology: the racks.
      task: the worker.
      ps: the addresses of all ps.
      deadline: seconds of the monotonic clock.

    Yields:
      True for the first worker of a rack; False for the others, which may measure at the same time.
    """
    first = topology.workers[topology.names.index(topology.racks[task])][0]
    if task != first:
        last = _DoctorStore(ps[-1])
        poll_until(lambda: last.ask(lambda store: f"{RECORD}/{first}" in store.items()), deadline, _POLL_SECS)
        yield False
        return
    board = _DoctorStore(ps[0])
    taken = poll_until(lambda: board.ask(lambda store: _take(store, task)), deadline, _POLL_SECS)
    try:
        yield True
    finally:
        if taken:
            poll_until(lambda: board.ask(_free), time.monotonic() + _CALL_SECS, _POLL_SECS)


def _take(store: KeyValueStore, task: str) -> bool:
    held = store.get(_TURN)  # by this task, if the answer to an earlier call was lost
    return held == task or (held in ("", _FREE) and store.compare_and_set(_TURN, held, task) == held)


def _free(store: KeyValueStore) -> bool:
    store.set(_TURN, _FREE)
    return True


class _DoctorStore:
    """The store of a ps's doctor, which may not be there yet."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._store: KeyValueStore | None = None

    def ask(self, question: Callable[[KeyValueStore], object]) -> bool:
        """Returns whether a function of the store is true; False where no doctor answers."""
        try:
            if self._store is None and probe(self._address)[0] is Answer.GRPC:
                self._store = KeyValueStore(self._address.target, str(self._address), _CALL_SECS)
            return self._store is not None and bool(question(self._store))
        except (LostTaskError, RefusedError, RuntimeError):
            return False
