"""The parser of the commands besides `python -m ps_train`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ps_train.base.command_parser import CommandParser
from ps_train.base.errors import ConfigError, split_page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: --hosts: see python -m a.command --help."),
        (["--hosts=a", "--count=x"], "argument --count: invalid int value: 'x': see python -m a.command --help."),
        (["--hosts=a", "--cou=3"], "unrecognized arguments: --cou=3: see python -m a.command --help."),
    ],
)
def test_an_error_is_one_line_that_names_the_help(arguments: list[str], said: str) -> None:
    parser = CommandParser("python -m a.command")
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--count", type=int)
    with pytest.raises(ConfigError) as found:
        parser.parse_args(arguments)
    assert str(found.value) == said


EMPTY = " is empty, as is an unset variable: give it a value, or leave it out."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by=", "file"], "--by" + EMPTY),
        (["--by", "", "file"], "--by" + EMPTY),
        (["--space=a", "--space=", "file"], "--space" + EMPTY),
        ([""], "NAME" + EMPTY),
    ],
)
def test_an_empty_text_is_not_taken_for_the_default(arguments: list[str], said: str) -> None:
    parser = CommandParser("python -m a.command")
    parser.add_argument("name")
    parser.add_argument("--by", default="")
    parser.add_argument("--space", action="append", default=[])
    parser.add_argument("--prefix", default="", may_be_empty=True)
    with pytest.raises(ConfigError) as found:
        parser.parse_args(arguments)
    assert str(found.value) == said
    given = parser.parse_args(["file", "--prefix="])
    assert (given.name, given.by, given.space, given.prefix) == ("file", "", [], "")
    assert type(given.by) is str


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("ps_train firewall", ["--apply=x"]),
        ("ps_train launch", []),
        ("ps_train.models.clicks", ["--lines=x"]),
        ("ps_train run", []),
        ("ps_train run", ["--num_ps=-1", "train.py"]),
    ],
)
def test_every_command_ends_with_2_and_one_line_of_error(command: str, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split(), *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("ps_train: error: ")
    said, page = split_page(done.stderr.rstrip())
    assert said.endswith(f": see python -m {command} --help.") and page
