"""Print the pages of the documents, a page, or a section of a page.

python -m ps_train help                         # the pages, with their first sentences
python -m ps_train help hosts
python -m ps_train help troubleshoot#it-hangs   # a message ends with this name: (help: troubleshoot#it-hangs)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ps_train.base.command_parser import CommandParser
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, ConfigError, nearest, shown
from ps_train.commands.help.pages import find_pages, read_page, slug
from ps_train.config.error_line import run_command
from ps_train.config.verbs import VERBS

_MOST_NAMES = 3
_COMMAND = "python -m ps_train help"


def help(arguments: Sequence[str], console: Console) -> int:
    """Prints what is asked for; returns the exit code.

    Args:
      arguments: the command line without the program's name.
      console: receives the text.
    """
    return run_command(lambda: _run(arguments, console), console, VERBS["help"].page)


def command_line() -> CommandParser:
    """Returns the parser of the command line."""
    parser = CommandParser(_COMMAND, description=__doc__)
    parser.add_argument(
        "page", nargs="?", default="", metavar="PAGE[#HEADING]", help="name of a page, as hosts#over-ssh"
    )
    return parser


def _run(arguments: Sequence[str], console: Console) -> int:
    console.line(_text(command_line().parse_args(arguments).page))
    return EXIT_DONE


def _text(wanted: str) -> str:
    """Returns what the argument asks for."""
    pages = find_pages()
    if not pages:
        raise ConfigError("the pages are not beside this copy of ps_train: install it by pip, or use a clone.")
    if not wanted:
        width = max(map(len, pages))
        lines = [f"{name:{width}}  {read_page(path).first_sentence()}" for name, path in pages.items()]
        return "\n".join([*lines, "", f"To read one: {_COMMAND} PAGE, or {_COMMAND} PAGE#HEADING"])
    name, _, heading = wanted.removeprefix("docs/").replace(".md", "", 1).partition("#")
    known = {name.lower(): path for name, path in pages.items()}
    if name.lower() not in known:
        raise ConfigError(f"there is no page {shown(name)}: {_hint(name.lower(), known)}")
    page = read_page(known[name.lower()])
    if not heading:
        return page.text.strip()
    if found := page.section(slug(heading)):
        return found
    raise ConfigError(f"the page {name} has no heading {shown(heading)}: {_hint(slug(heading), page.headings()[1:])}")


def _hint(name: str, known: Iterable[str]) -> str:
    """Returns the nearest names, or all of them where none is near."""
    return nearest(name, known, "did you mean {}?", f"use one of {', '.join(known)}.", most=_MOST_NAMES, joint=" or ")
