"""Mutations are other programs, each of one kind, and their tests are found."""

from __future__ import annotations

import ast
import pathlib

import pytest

from tests.trials.mutation.mutations import mutations_of
from tests.trials.mutation.trial import ROOT, find_tests

SOURCE = '''\
"""Ü: columns of the syntax tree are bytes."""


def least(values: list[int], limit: int = 3) -> int:
    if not values or limit <= 0:
        raise ValueError(f"{limit} is no limit")
    found = max(limit, -values[0])  # é
    found += len(values) * 2
    print(found)
    return found - 1
'''


def of(kind: str) -> list[tuple[str, str]]:
    return [(mutation.old, mutation.new) for mutation in mutations_of(SOURCE) if mutation.kind == kind]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("comparison", [("limit <= 0", "(limit < 0)")]),
        ("condition", [("not values or limit <= 0", "(not values and limit <= 0)")]),
        (
            "sign",
            [
                ("not values", "(values)"),
                ("-values[0]", "(values[0])"),
                ("len(values) * 2", "(len(values) // 2)"),
                ("found - 1", "(found + 1)"),
            ],
        ),
        ("bound", [("3", "4"), ("0", "1"), ("0", "1"), ("2", "3"), ("1", "2")]),
        ("swapped arguments", [("max(limit, -values[0])", "max(-values[0], limit)")]),
        ("removed raise", [('raise ValueError(f"{limit} is no limit")', "pass")]),
        ("dropped statement", [("found += len(values) * 2", "pass"), ("print(found)", "pass")]),
    ],
)
def test_each_kind_of_mutation_is_made(kind: str, expected: list[tuple[str, str]]) -> None:
    assert of(kind) == expected


@pytest.mark.parametrize(
    "source", [SOURCE, (ROOT / "ps_train/modeling/metrics.py").read_text()], ids=["made up", "metrics"]
)
def test_every_mutation_is_another_program(source: str) -> None:
    mutations = mutations_of(source)
    assert len(mutations) > 10
    for mutation in mutations:
        assert ast.dump(ast.parse(mutation.applied_to(source))) != ast.dump(ast.parse(source))


def test_the_tests_of_a_module_are_those_that_its_path_names_and_that_import_it() -> None:
    found = find_tests(pathlib.Path("ps_train/engine/updates/gradients/transforms.py"))
    assert found and all((ROOT / file).exists() for file in found)
    assert any("clip" in (ROOT / file).read_text() for file in found)
    assert find_tests(pathlib.Path("ps_train/no_such_module.py")) == []
