"""Tables in Markdown."""

from __future__ import annotations

import pytest

from benchmarks import table


def test_a_table_has_a_rule_and_equal_columns():
    lines = table.markdown(["who", "n"], [["a", "1"], ["longer", "22"]]).splitlines()
    assert [line.count("|") for line in lines] == [3, 3, 3, 3]
    assert len({len(line) for line in lines}) == 1
    assert set(lines[1]) == {"|", " ", "-", ":"}


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="1 cells under 2 heads"):
        table.markdown(["who", "n"], [["a"]])
