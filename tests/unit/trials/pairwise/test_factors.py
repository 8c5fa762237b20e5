"""A seed's design: few legal rows with every pair of levels."""

from __future__ import annotations

import pathlib
import random

import pytest

from ps_train.config.flags import parse
from tests.support.machine.processes import Processes
from tests.trials.pairwise.factors import (
    STEPS,
    Row,
    all_pairs,
    design,
    is_legal,
    pairs_of,
    row_with,
)
from tests.trials.pairwise.job import Job


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return design(seed=1, tries=5)  # the 100 of a run take half a minute


@pytest.mark.long
def test_every_pair_of_levels_is_in_a_row_unless_no_row_may_have_it(rows: list[Row]) -> None:
    left = {*all_pairs()} - {pair for row in rows for pair in pairs_of(row)}
    assert [pair for pair in left if row_with(pair, random.Random(2)) is not None] == []
    assert len(left) < 100  # racks and ps on workers exclude many levels


def test_the_rows_are_few_and_legal_and_a_seed_decides_them(rows: list[Row]) -> None:
    assert len(rows) < 180
    assert [row for row in rows if not is_legal(row)] == []
    assert sum(row.has_equal_examples for row in rows) < len(rows) / 2
    assert design(1, tries=5) == rows
    assert design(2, tries=5) != rows


@pytest.mark.long
def test_more_tries_give_fewer_rows(rows: list[Row]) -> None:
    assert len(design(seed=1)) < min(145, len(rows))


def test_the_program_takes_the_flags_of_every_row(rows: list[Row], tmp_path: pathlib.Path) -> None:
    for number, row in enumerate(rows):
        job = Job(row, Processes(tmp_path), tmp_path, row.num_ps, STEPS, tmp_path / f"gate-{number}", (8,))
        for task in job.tasks:
            assert parse(job.flags_of(task), {}).job.update == row.update
