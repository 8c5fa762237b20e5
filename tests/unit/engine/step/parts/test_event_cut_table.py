"""The cut by event time and the marks of partitions, on ps 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from ps_train.engine.run_directory.checkpoint_contents import EVENT_CUT_KEY
from ps_train.engine.step.parts.event_cut_table import EventCutTable
from tests.support.graphs.local import LocalSession


def test_marks_and_cut_are_written_and_read_and_the_checkpoint_has_the_cut_alone() -> None:
    with tf.Graph().as_default() as graph:
        sharding: Any = SimpleNamespace(assigned=SimpleNamespace(count=4))
        table, given, made = EventCutTable(sharding), object(), object()
        assert table.update(lambda one: made if one is given else None)(given) is made  # type: ignore
        (entry,) = table.entries()
        assert entry.key == EVENT_CUT_KEY and entry.optional and entry.full_shape == [2]
        assert "/job:ps/replica:0/task:0" in entry.variable.device
        session: Any = LocalSession(graph)

        def read() -> dict[str, Any]:
            return {name: value.tolist() for name, value in table.read(session).items()}

        assert read() == {"cut": [0, 0], "marks": [[0, 0]] * 4}
        table.mark(session, {3: (4001, 1_800_000_000_123), 0: (7, -5)})
        table.move(session, last=1_800_000_000_000, next=1_800_000_060_000)
        table.mark(session, {0: (8, 9)})
        assert read() == {
            "cut": [1_800_000_000_000, 1_800_000_060_000],
            "marks": [[8, 9], [0, 0], [0, 0], [4001, 1_800_000_000_123]],
        }
        assert session.run(entry.variable).tolist() == [1_800_000_000_000, 1_800_000_060_000]
