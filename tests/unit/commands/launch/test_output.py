"""The lines of a child process, and the one among them that tells why it failed."""

from __future__ import annotations

import sys

import pytest

from ps_train.base.children import start_text_child
from ps_train.commands.launch.output import TaskOutput, lines_of

PROGRAM = r"""
import os
os.write(1, b"first\nsec")
os.write(2, "ps_train: error: größer\n".encode())
os.write(1, b"ond\r\nno end")
os.write(2, b"\xff\n")
"""


def test_both_streams_are_read_to_their_end_in_whole_lines():
    with start_text_child([sys.executable, "-c", PROGRAM]) as process:
        found = list(lines_of(process))
    assert [line.rstrip() for is_error, line in found if not is_error] == ["first", "second", "no end"]
    assert [line for is_error, line in found if is_error] == ["ps_train: error: größer", "\ufffd"]


@pytest.mark.timeout(60)
def test_a_line_may_be_long() -> None:
    """The time does not grow with the square of its length."""
    program = "import os\nfor _ in range(200): os.write(1, b'x' * 1_000_000)\nos.write(1, b'\\nend')"
    with start_text_child([sys.executable, "-c", program]) as process:
        found = [line for _, line in lines_of(process)]
    assert [len(line) for line in found] == [200_000_000, 3] and found[1] == "end"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["ps_train: error: the disk is full", "2026-01-01 W tensorflow: noise"], "the disk is full"),
        (["ps_train: error: first", "ps_train: error: last", "noise"], "last"),
        (["ps_train: error: first", *(f"a thread says {number}" for number in range(9))], "first"),
        (["Segmentation fault", ""], "Segmentation fault"),
        (
            ["Traceback (most recent call last):", '  File "a.py", line 1', "    f()", "KeyError: 'x'", "a thread"],
            "KeyError: 'x'",
        ),
        (["Traceback (most recent call last):", "  cut off"], "cut off"),
        ([], "it printed nothing"),
    ],
)
def test_the_cause_is_the_last_error_of_ours_or_exception_or_line(lines, cause):
    output = TaskOutput(3)
    for line in lines:
        output.add(True, line)
    assert output.cause() == cause


def test_an_error_and_the_frames_before_it_are_held_back():
    output = TaskOutput(9)
    frames = ["Your code (--verbose shows all frames):", '  File "net.py", line 3, in forward', "    oh()"]
    lines = [(True, "warning: slow"), *((True, line) for line in frames), (False, "ps_train: error: not really")]
    lines += [(True, "ps_train: error: oh"), (True, "late")]
    shown = [line for is_error, line in lines if output.add(is_error, line)]
    assert shown == ["warning: slow", "ps_train: error: not really", "late"] == list(output.lines)
    assert output.held_back == [*frames, "ps_train: error: oh"] and output.frames() == frames
