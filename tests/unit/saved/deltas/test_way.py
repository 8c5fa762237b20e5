"""The way through deltas that lead back, in all orders of arrival and from all contents."""

from __future__ import annotations

import itertools

import pytest

from ps_train.base.errors import ConfigError
from ps_train.saved.deltas.way import Link, way


def chain(contents: str, names: str = "{:04}") -> list[Link]:
    """Returns the deltas of a history of contents, each a letter."""
    return [
        Link(names.format(number), base, after, float(number))
        for number, (base, after) in enumerate(itertools.pairwise(contents), 1)
    ]


def end(here: str, links: list[Link]) -> str:
    found = way(here, links)
    for link in found:
        assert link.base == here
        here = link.next
    assert way(here, links) == [], "the newest content is an end, so an update ends"
    return here


HISTORIES = ["AB", "ABC", "ABA", "ABAC", "ABABC", "ABAB", "ABCA", "ABCAD", "ABCBA", "ABCABCD", "AABBA", "ABCDBD"]


@pytest.mark.parametrize("history", HISTORIES)
def test_a_process_that_starts_anywhere_comes_to_the_newest_content(history: str) -> None:
    links = chain(history)
    for order in itertools.islice(itertools.permutations(links), 50):
        for begin in set(history):
            assert end(begin, list(order)) == history[-1]


@pytest.mark.parametrize("history", HISTORIES)
def test_one_that_follows_is_always_at_the_newest_content(history: str) -> None:
    here = history[0]
    for count in range(1, len(history)):
        here = end(here, chain(history)[:count])
        assert here == history[count]


@pytest.mark.parametrize("history", ["ABA", "ABAC", "ABABC", "ABCA", "ABCAD"])
def test_deltas_may_arrive_in_any_order(history: str) -> None:
    for order in itertools.permutations(chain(history)):
        here, there = history[0], []
        for link in order:
            there.append(link)
            try:
                here = end(here, there)
            except ConfigError:  # two lead on while one between them is missing
                continue
        assert here == history[-1], order


def test_names_without_numbers_are_in_the_order_of_their_times() -> None:
    links = [Link("forth", "A", "B", 1.0), Link("back", "B", "A", 2.0)]
    assert end("A", links[:1]) == "B" and end("B", links) == "A" and end("A", links) == "A"
    numbered = [Link("d9", "A", "B", 0.0), Link("d10", "B", "A", 0.0)]
    assert end("A", numbered) == "A" and end("B", numbered) == "A"


def test_chains_of_other_contents_and_copies_do_not_matter() -> None:
    copies = [Link(f"copy/{link.folder}", *link[1:]) for link in chain("ABC")]
    assert end("A", chain("ABC") + copies + chain("XYX", "x{}")) == "C"
    assert end("Q", chain("ABC")) == "Q"
    assert end("A", chain("ABC") + chain("CDE", "again/{}")) == "E"


def test_two_ends_are_refused_where_the_ways_part() -> None:
    links = [*chain("ABC"), Link("branch", "B", "D", 9.0)]
    assert [link.folder for link in way("A", links)] == ["0001"]
    with pytest.raises(ConfigError, match=r"^0002 and branch both lead on from hash B: remove one\."):
        way("B", links)
    assert end("C", links) == "C"


def test_a_long_chain_takes_no_long_time() -> None:
    links = [Link(f"{number:06}", str(number), str(number + 1), 0.0) for number in range(20_000)]
    assert len(way("0", links)) == 20_000
