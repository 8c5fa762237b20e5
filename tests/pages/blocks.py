"""Fenced blocks of the pages: commands, programs, and the output that a page shows of them.

    for block in blocks_of(page.read_text()): ...

The line before a fence says how a block is run, where that is not the usual way:

    <!-- run: exit=2 -->              the block ends with this code; 0 without it
    <!-- run: long -->                takes more than a few seconds: it runs under `-m ""`
    <!-- run: long, exit=1 -->
    <!-- not run: needs Kubernetes -->
    <!-- fragment -->                 Python that is no program: it is compiled, and its names are looked up

`bash` holds commands.  `python` holds a file if its first line is a comment with the file's name, else a program.
`text` right after one of them is its output.
"""

from __future__ import annotations

import dataclasses
import re

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_DIRECTIVE = re.compile(r"<!-- *(?P<kind>not run|run|fragment)(?:: *(?P<value>.*?))? *-->\s*$")
_FILE = re.compile(r"# ([\w./-]+\.\w+)$")

LANGUAGES = {"bash", "python", "text", "json", "yaml", "ini", "toml", "dockerfile", "html", "csv"}


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
      language: the word after the fence.
      text: the content, without the indent of the fence.
      line: number of the fence's line, from 1.
      exit_code: expected code of the block's end.
      is_long: it takes more than a few seconds.
      why_not_run: the reason, or "".
      is_fragment: Python that does not run by itself.
      output: lines that the block prints, as the page shows them; () without.
    """

    language: str
    text: str
    line: int
    exit_code: int = 0
    is_long: bool = False
    why_not_run: str = ""
    is_fragment: bool = False
    output: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Name of the file that the block holds, or ""."""
        found = _FILE.match(self.text.partition("\n")[0]) if self.language == "python" else None
        return found[1] if found else ""


def blocks_of(page: str) -> list[Block]:
    """Returns the blocks of a page in their order; the output of a block is part of it.

    Raises:
      ValueError: a directive is not one of those above.
    """
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(page):
        before = page[end : match.start()]
        end = match.end()
        indent = match["indent"]
        text = re.sub(f"^{indent}", "", match["text"], flags=re.MULTILINE)
        line = page.count("\n", 0, match.start()) + 1
        if match["language"] == "text" and found and not before.strip():
            found[-1] = dataclasses.replace(found[-1], output=tuple(text.splitlines()))
        else:
            found.append(_with_directive(Block(match["language"], text, line), before))
    return found


def _with_directive(block: Block, before: str) -> Block:
    last = before.rstrip().rpartition("\n")[2].strip()
    match = _DIRECTIVE.match(last)
    if match is None:
        if last.startswith("<!--") and last.endswith("-->") and "run" in last:
            raise ValueError(f"line {block.line}: {last} is not a directive")
        return block
    if match["kind"] == "not run":
        if not match["value"]:
            raise ValueError(f"line {block.line}: 'not run' needs a reason")
        return dataclasses.replace(block, why_not_run=match["value"])
    if match["kind"] == "fragment":
        return dataclasses.replace(block, is_fragment=True)
    for word in filter(None, (word.strip() for word in (match["value"] or "").split(","))):
        if word == "long":
            block = dataclasses.replace(block, is_long=True)
        elif code := re.fullmatch(r"exit=(\d+)", word):
            block = dataclasses.replace(block, exit_code=int(code[1]))
        else:
            raise ValueError(f"line {block.line}: {word!r} is not 'long' or 'exit=N'")
    return block


_MASKS = [
    (re.compile(r"(?<![\w.])(?:/[\w.@+-]+)+/?"), "PATH"),
    (re.compile(r"\b(?:localhost|127\.0\.0\.1)\b"), "HOST"),
    (re.compile(r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}\b"), "N"),
    (
        re.compile(
            r"[-+]?(?:\d[\d,:.]*\d|\d)(?:e[-+]?\d+)?(?: ?(?:ms|secs?|s|min|m|h|B|KiB|MiB|GiB|TiB|%)(?![A-Za-z]))?"
        ),
        "N",
    ),
    (re.compile(r"\b(?:nan|inf)\b"), "N"),
    (re.compile(r"N(?:[ -]?N)+"), "N"),
]


def masked(line: str) -> str:
    """Returns a line without what differs from run to run: paths, numbers with their units, times, ids."""
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return " ".join(line.split())


def missing_lines(shown: tuple[str, ...], printed: list[str]) -> list[str]:
    """Returns the lines of a page's output that a run has not printed.

    They are compared masked.  Lines of a task (`[ps:0] ...`) may come at any time, all others in the page's order.
    Lines that are alike count once: a fast machine shows its progress less often.  Empty lines and `...` are left out.
    """
    real = [masked(line) for line in printed]
    missing, position, last = [], 0, ""
    for line in shown:
        wanted = masked(line)
        if wanted in ("", "...", last):
            continue
        last = wanted
        if wanted.startswith("["):
            if wanted not in real:
                missing.append(line)
        elif wanted in real[position:]:
            position = real.index(wanted, position) + 1
        else:
            missing.append(line)
    return missing
