"""The way from a content to the newest one, through deltas that may lead back to earlier contents.

    way("hash of A", [Link("d1", "A", "B", made=1.0), Link("d2", "B", "A", made=2.0), Link("d3", "A", "C", made=3.0)])
                                                                                        # [d3]

A content is known by its hash, so the way depends on the deltas that are there and on the present content alone: a
process that starts and one that has followed from the beginning come to the same end.  No files are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ps_train.base.errors import ConfigError


class Link(NamedTuple):
    """A delta between two contents.

    Attributes:
      folder: its directory.
      base: hash of the content that it leads from.
      next: hash of the content that it leads to.
      made: time at which it was made, in seconds; 0 if it is not known.
    """

    folder: str
    base: str
    next: str
    made: float


_Links = Mapping[str, Mapping[str, Link]]


def way(here: str, links: Iterable[Link]) -> list[Link]:
    """Returns the deltas to apply, the shortest way to the newest content; [] if it is the present one.

    The newest content is the one from which nothing leads on.  Where deltas lead round, it is where the last of them
    leads: by number if their names differ in numbers alone, else by the time at which they were made.

    Args:
      here: hash of the present content.
      links: the deltas that are there.

    Raises:
      ConfigError: two deltas lead on from the present content to different ends.
    """
    ordered = _in_order([link for link in links if link.base != link.next])
    ahead: dict[str, dict[str, Link]] = {}
    behind: dict[str, dict[str, Link]] = {}
    for link in ordered:
        ahead.setdefault(link.base, {})[link.next] = link
        behind.setdefault(link.next, {})[link.base] = link
    end = _end(here, ordered, ahead, behind)
    found = _path(here, end, ahead)
    with_this_end = set(_reached(end, behind))
    others = [content for content in _reached(here, ahead) if content not in with_this_end]
    if not others:
        return found
    other = _path(here, _end(others[-1], ordered, ahead, behind), ahead)
    common = 0
    while found[common].next == other[common].next:
        common += 1
    if not common:
        names = " and ".join(sorted([found[0].folder, other[0].folder]))
        raise ConfigError(f"{names} both lead on from hash {here[:12]}: remove one.")
    return found[:common]


def _end(here: str, ordered: Sequence[Link], ahead: _Links, behind: _Links) -> str:
    """Returns an end of the ways from a content."""
    while True:
        around, back = _reached(here, ahead), set(_reached(here, behind))
        further = [content for content in around if content not in back]
        if not further:  # each of these contents leads to each other one
            last = [link.next for link in ordered if link.next in set(around) and link.base in set(around)][-1:]
            return last[0] if last else here
        here = further[-1]


def _reached(here: str, links: _Links) -> list[str]:
    """Returns the contents that can be reached, the nearest first."""
    found = {here: None}
    for content in (todo := [here]):
        new = [other for other in links.get(content, ()) if other not in found]
        found.update(dict.fromkeys(new))
        todo += new
    return list(found)


def _path(here: str, end: str, ahead: _Links) -> list[Link]:
    """Returns the shortest way between two contents."""
    into: dict[str, Link] = {}
    for content in _reached(here, ahead):
        for link in ahead.get(content, {}).values():
            if link.next != here:
                into.setdefault(link.next, link)
    found: list[Link] = []
    while end != here:
        found.append(into[end])
        end = into[end].base
    return found[::-1]


def _in_order(links: Sequence[Link]) -> list[Link]:
    """Returns deltas in the order in which they continue a chain."""
    are_numbered = len({re.sub(r"\d+", "0", link.folder) for link in links}) < 2

    def key(link: Link) -> tuple[float, list[int], str]:
        numbers = [int(number) for number in re.findall(r"\d+", link.folder)]
        return 0.0 if are_numbered else link.made, numbers, link.folder

    return sorted(links, key=key)
