"""The pages of the documents: where they are, their first sentences and their sections.

    pages = find_pages()                        # {"README": path, ..., "checkpoints": path, ...}
    page = read_page(pages["hosts"])
    page.first_sentence()                       # "Start one job on several machines."
    page.section("over-ssh")                    # the text from that heading to the next of its level

An installed package has the pages in a folder of its own; a clone has them beside the package.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping

import ps_train

_PACKAGE = pathlib.Path(ps_train.__file__).parent
_FOLDER = "docs"
_AT_THE_ROOT = ("README", "SECURITY")
_HEADING = re.compile(r"(#+) +(.+?) *#*$")
_FENCE = "```"
_REMARK = re.compile(r"^ *<!--.*?-->\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_NO_SENTENCE = ("#", "|", "<", "!", "- ", "[!", _FENCE)
"""Beginnings of paragraphs that are a picture, a table or the like."""


def find_pages() -> Mapping[str, pathlib.Path]:
    """Returns name to file, of all pages; {} if they are not there."""
    installed, clone = _PACKAGE / _FOLDER, _PACKAGE.parent
    if installed.is_dir():
        paths = list(installed.glob("*.md"))
    elif (clone / "setup.py").is_file():
        paths = [*(clone / _FOLDER).glob("*.md"), *(clone / f"{name}.md" for name in _AT_THE_ROOT)]
    else:
        paths = []
    paths = sorted((path for path in paths if path.is_file()), key=lambda path: (not path.stem.isupper(), path.stem))
    return {path.stem: path for path in paths}


def read_page(path: pathlib.Path) -> Page:
    """Returns a page without the remarks for those who write it."""
    return Page(_REMARK.sub("", path.read_text(encoding="utf-8")))


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as GitHub makes it: `Over ssh` has over-ssh."""
    return re.sub(r"[^\w -]", "", _LINK.sub(r"\1", heading).lower()).replace(" ", "-")


@dataclasses.dataclass(frozen=True)
class Page:
    """The text of a page, in Markdown."""

    text: str

    def headings(self) -> list[str]:
        """Returns the anchors of the headings."""
        return [slug(title) for _, _, title in self._headings()]

    def first_sentence(self) -> str:
        """Returns the first sentence in plain words; "" if the page has none."""
        for paragraph in re.split(r"\n\s*\n", self.text):
            words = " ".join(paragraph.split())
            if words and not words.startswith(_NO_SENTENCE):
                words = _LINK.sub(r"\1", words).replace("**", "").replace("`", "")
                return re.split(r"(?<=[.!?:]) ", words, maxsplit=1)[0]
        return ""

    def section(self, heading: str) -> str:
        """Returns the text from a heading to the next one that is not below it; "" if there is no such heading."""
        lines, found = self.text.splitlines(), list(self._headings())
        for place, (first, level, title) in enumerate(found):
            if slug(title) == heading:
                ends = [line for line, other, _ in found[place + 1 :] if other <= level]
                return "\n".join(lines[first : ends[0] if ends else len(lines)]).rstrip()
        return ""

    def _headings(self) -> Iterator[tuple[int, int, str]]:
        """Yields (line, level, title); a line of a program that begins with # is not a heading."""
        in_fence = False
        for number, line in enumerate(self.text.splitlines()):
            if line.lstrip().startswith(_FENCE):
                in_fence = not in_fence
            elif not in_fence and (found := _HEADING.match(line)):
                yield number, len(found[1]), found[2]
