"""Values of a checkpoint are written into slices of a variable, in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.variables import CheckpointEntry, rows_spec
from ps_train.saved.warm_start import writing
from ps_train.saved.warm_start.choices import REMAPPED, TAKEN, Beginning
from ps_train.saved.warm_start.table_routes import Route
from ps_train.saved.warm_start.writing import Target, write

SHAPE = [7, 2]
NEW = np.arange(14, dtype=np.float32).reshape(SHAPE) + 100


class Source:
    """A checkpoint that says which parts are read."""

    def __init__(self, at_once: int = 100) -> None:
        self.reads: list[tuple[int, int]] = []
        self._at_once = at_once

    def read(self, name: str, begin: int = 0, count: int = -1) -> np.ndarray:
        assert name == "old"
        self.reads.append((begin, count))
        return NEW if count < 0 else NEW[begin : begin + count]

    def rows_at_once(self, name: str) -> int:
        return self._at_once


@pytest.fixture
def session():
    with tf.Graph().as_default(), v1.Session() as found:
        yield found


def target(session: v1.Session, *sizes: int) -> tuple[Target, list[Any]]:
    """A variable of seven rows in slices of these sizes."""
    entries, begin = [], 0
    for number, rows in enumerate(sizes):
        made = v1.get_variable(f"part{number}", [rows, 2], initializer=v1.zeros_initializer(), use_resource=True)
        entries.append(CheckpointEntry("w", rows_spec(SHAPE, begin, rows) if len(sizes) > 1 else "", made))
        begin += rows
    session.run(v1.global_variables_initializer())
    return Target(entries, ""), [entry.variable for entry in entries]


def written(session: v1.Session, sizes: tuple[int, ...], choice: Beginning, source: Source) -> np.ndarray:
    found, variables = target(session, *sizes)
    given: Any = source
    write(session, found, given, choice)
    return np.concatenate(session.run(variables))


@pytest.mark.parametrize("sizes", [(7,), (3, 4), (2, 1, 4)])
@pytest.mark.parametrize("bytes_at_once", [1 << 20, 16])
def test_a_whole_variable_is_written_in_all_slices(
    session: v1.Session, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], bytes_at_once: int
) -> None:
    monkeypatch.setattr(writing, "CHUNK_BYTES", bytes_at_once)
    source = Source()
    np.testing.assert_array_equal(written(session, sizes, Beginning(TAKEN, "old"), source), NEW)
    if bytes_at_once == 16:  # two rows at a time
        assert max(count for _, count in source.reads) <= 2 and sum(count for _, count in source.reads) == 7


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_of_a_route_go_to_their_places_and_the_others_stay(session: v1.Session, at_once: int) -> None:
    places = np.array([6, -1, 0, 3, -1])

    def route(begin: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        part = places[begin : begin + count]
        return np.flatnonzero(part >= 0), part[part >= 0]

    choice = Beginning(REMAPPED, "old", route=Route(5, route))
    found = written(session, (3, 4), choice, Source(at_once))
    right = np.zeros(SHAPE)
    right[[6, 0, 3]] = NEW[[0, 2, 3]]
    np.testing.assert_array_equal(found, right)


def test_values_may_be_others_than_those_of_the_checkpoint(session: v1.Session) -> None:
    source = Source()
    choice = Beginning(TAKEN, "old", read=lambda begin, count: np.full([7 if count < 0 else count, 2], 5.0))
    assert (written(session, (7,), choice, source) == 5.0).all() and source.reads == []


def test_a_scalar_is_written_whole(session: v1.Session) -> None:
    step = v1.get_variable("step", [], tf.int64, v1.zeros_initializer(), use_resource=True)
    session.run(step.initializer)
    found: Any = Source()
    found.read = lambda name, begin, count: np.int64(77)
    write(session, Target([CheckpointEntry("global_step", "", step)], ""), found, Beginning(TAKEN, "old"))
    assert session.run(step) == 77
