"""Two rows; `python -m tests.trials pairwise` runs all pairs of flags."""

from __future__ import annotations

import pytest

from tests.support.long import long
from tests.trials.pairwise.factors import (
    Row,
    is_legal,
)
from tests.trials.pairwise.trial import judge


@pytest.mark.parametrize(
    "row",
    [
        Row(num_ps=2, event="kill_worker", sharding="dynamic", data="uneven", optimizer="momentum", table="expire"),
        long(Row(update="sync", num_workers=2, event="kill_job", ending="epochs", on_nan="skip", clip="norm")),
        long(
            Row(update="sync", event="kill_worker", sharding="dynamic", local_steps=3, optimizer="ftrl", table="rows")
        ),
        long(Row(update="sync", event="resume", local_tables=False, local_steps=3, optimizer="rmsprop", table="admit")),
        long(Row(event="resume", ending="early_stop", prefetch_pulls=1, steps_per_run="3", table="open")),
    ],
    ids=Row.text,
)
def test_a_row_agrees_with_the_oracle(row: Row) -> None:
    assert is_legal(row)
    assert judge(row) == ""
