"""The list of mutations fits the code: `python -m tests.mutation` runs it."""

from __future__ import annotations

import ast
import collections
import dataclasses

import pytest

from tests.mutation import report
from tests.mutation.__main__ import ROOT
from tests.mutation.catalogue import MUTATIONS
from tests.mutation.mutation import Mutation, StaleError, defined_tests

TEXT = """
class First:
    def go(self):
        return 1


class Second:
    def go(self):
        return 1
"""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "_"))
def test_a_mutation_fits_the_code_and_its_tests_exist(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text()
    mutated = mutation.applied_to(text)
    assert mutated != text
    ast.parse(mutated)
    assert mutation.tests
    for test in mutation.tests:
        file, _, name = test.partition("::")
        defined = defined_tests((ROOT / file).read_text())
        assert defined and (not name or name in defined), test


def test_every_mutation_has_a_name_of_its_own_and_there_are_many() -> None:
    names = collections.Counter(mutation.name for mutation in MUTATIONS)
    assert len(names) == len(MUTATIONS) >= 60
    changes = {(mutation.file, mutation.within, mutation.old, mutation.new) for mutation in MUTATIONS}
    assert len(changes) == len(MUTATIONS)


def mutation_of(old: str, within: str = "") -> Mutation:
    return Mutation("a name", "some/file.py", old, "return 2", ("tests/test_x.py",), within)


def test_a_text_is_replaced_in_the_function_that_is_named() -> None:
    assert mutation_of("return 1", "Second.go").applied_to(TEXT) == "return 2".join(TEXT.rsplit("return 1", 1))


@pytest.mark.parametrize("within, count", [("", 2), ("First", 1), ("First.go", 1)])
def test_a_text_that_is_missing_or_not_unique_is_an_error_that_names_the_place(within: str, count: int) -> None:
    with pytest.raises(StaleError, match=r"'return 3' occurs 0 times in some/file\.py"):
        mutation_of("return 3", within).applied_to(TEXT)
    if count > 1:
        with pytest.raises(StaleError, match="occurs 2 times"):
            mutation_of("return 1", within).applied_to(TEXT)


def test_a_result_keeps_the_last_outcome_of_each_mutation_and_counts_what_was_not_run() -> None:
    first, second, third = (mutation_of("return 1", within) for within in ("First", "Second", "First.go"))
    three = [dataclasses.replace(one, name=name) for one, name in ((first, "a"), (second, "b"), (third, "c"))]
    before = report.outcomes_in(report.text(three, {"a": ("killed", "2026-01-01"), "b": ("SURVIVED", "2026-01-01")}))
    assert before == {"a": ("killed", "2026-01-01"), "b": ("SURVIVED", "2026-01-01"), "c": ("not run", "")}
    after = before | {"b": ("killed (crashed)", "2026-01-02")}
    assert report.score_of(three, after) == 2 / 3
    assert "**2 of 3 mutations were killed: 66.7 %.**" in report.text(three, after)
    assert report.outcomes_in(report.text(three, after)) == after


def test_a_function_that_is_missing_or_not_unique_is_an_error() -> None:
    for within in ("Third", "go", "First.come"):
        with pytest.raises(StaleError, match="functions or classes have the name"):
            mutation_of("return 1", within).applied_to(TEXT)
