"""What can go wrong in a benchmark: the caller's input, or a contender."""

from __future__ import annotations


class UsageError(Exception):
    """The command line asks for something that is not there; the program prints it and ends with code 2."""


class ContenderError(Exception):
    """A contender failed, or did not do in time what it was asked to; the text, one line, holds its last lines.

    It ends the benchmark: nobody may catch it and go on.
    """


class SkippedError(Exception):
    """Something cannot be measured here; the text is the reason."""
