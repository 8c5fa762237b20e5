"""A new aggregator makes what is missing, and then begins."""

from __future__ import annotations

from typing import Any

from ps_train.engine.racks.rack_ops import RackOps


class Session:
    def __init__(self, missing: list[bool]) -> None:
        self.calls: list[Any] = []
        self._missing = missing

    def run(self, fetches: Any) -> Any:
        self.calls.append(fetches)
        return self._missing if fetches == "missing" else None


def test_only_variables_without_a_value_are_initialized_before_the_reset() -> None:
    ops: Any = RackOps(*["unused"] * 5, "missing", ["a", "b", "c"], "reset")  # type: ignore[arg-type, list-item]
    for missing, made in (([True, False, True], ["a", "c"]), ([False] * 3, [])):
        session: Any = Session(missing)
        ops.prepare(session)
        assert session.calls == ["missing", made, "reset"]
