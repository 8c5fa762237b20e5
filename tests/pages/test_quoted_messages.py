"""The messages that `docs/troubleshoot.md` explains are messages of the package."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

import ps_train
from ps_train.base.errors import EXIT_CODES

PACKAGE = pathlib.Path(ps_train.__file__).parent
PAGE = PACKAGE.parent / "docs" / "troubleshoot.md"

GAP = "…"
"""In a page and in a text of the package: what differs from job to job."""

_PLACEHOLDER = re.compile(r"%[-.\d]*[sdfgr]|\{[^{}]*\}")


def texts_of(program: str) -> set[str]:
    """Returns the texts of a program, with a gap for each placeholder of an f-string, `%` or `format`."""
    tree = ast.parse(program)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.add("".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            found.add(_PLACEHOLDER.sub(GAP, node.value))
    return found


def has_message(message: str, texts: set[str]) -> bool:
    """Returns True if one of the texts has all fragments of a message between its gaps, in their order."""
    fragments = [fragment.strip() for fragment in message.split(GAP) if fragment.strip()]
    pattern = re.compile(".*".join(map(re.escape, fragments)), re.DOTALL)
    return any(pattern.search(text) for text in texts)


def messages_of(page: str) -> list[str]:
    """Returns the messages in the first column of the table below the heading `Messages`."""
    rows = page.partition("\n## Messages\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", rows, re.MULTILINE)


@functools.cache
def texts_of_package() -> set[str]:
    return set().union(*(texts_of(module.read_text()) for module in PACKAGE.rglob("*.py")))


def test_a_message_is_found_by_its_fragments():
    texts = texts_of('f"lost {ps}: {why}; waiting {n}s"\nlog("%s is busy (%d)")\n"a {b} c" " d"\n')
    assert texts == {"lost …: …; waiting …s", "… is busy (…)", "a … c d"}
    assert has_message("lost …; waiting …s", texts) and has_message("… is busy …", texts)
    assert not has_message("waiting … lost", texts) and not has_message("… is idle", texts)


def test_the_messages_of_a_page_are_those_of_its_table():
    assert messages_of("| `a` |\n## Messages\n| Message |\n|---|\n| `b …` | x |\n\n## Next\n| `c` |\n") == ["b …"]


def test_every_message_that_the_page_explains_is_one_of_the_package():
    messages = messages_of(PAGE.read_text())
    assert len(messages) >= 15
    assert [message for message in messages if not has_message(message, texts_of_package())] == []


def test_no_message_is_explained_by_too_short_a_quotation():
    short = [m for m in messages_of(PAGE.read_text()) if max(map(len, m.split(GAP))) < 8]
    assert short == []


def test_the_table_of_exit_codes_has_the_words_of_the_code():
    rows = re.findall(r"^\| ([\d, ]+) \| ([^|]+) \|", PAGE.read_text().partition("\n### Exit codes\n")[2], re.MULTILINE)
    assert dict(rows) == {code: " ".join(meaning.split()) for code, meaning in EXIT_CODES.items()}
