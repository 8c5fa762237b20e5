"""The output of a child process: the lines of its standard output and of its standard error.

    for is_error, line in lines_of(process):
        ...

One thread reads both, so a line that was written to one stream before a line to the other is also read before it.  A
process that the child has started may outlive the child and keep its streams open: nothing waits for it.  Standard
library only.
"""

from __future__ import annotations

import codecs
import collections
import io
import os
import selectors
import time
from collections.abc import Iterator, Sequence

from ps_train.base.children import ChildProcess
from ps_train.base.console import ERROR_BEGINS, FRAMES_BEGIN
from ps_train.base.errors import split_page

_CHUNK = 1 << 16
_POLL_SECS = 0.2

_TRACEBACK_BEGINS = "Traceback (most recent call last):"

_LAST_SECS = 1.0
"""Seconds after the end of the child during which lines are still read."""


def lines_of(process: ChildProcess) -> Iterator[tuple[bool, str]]:
    """Yields (True for standard error, line without its end) until both streams or the process have ended."""
    assert process.stdout is not None and process.stderr is not None
    streams = {process.stdout.fileno(): Lines(), process.stderr.fileno(): Lines()}
    errors = process.stderr.fileno()
    with process.stdout, process.stderr:
        for stream, chunk in _chunks_of(process, list(streams)):
            for line in streams[stream].after(chunk):
                yield stream == errors, line


def _chunks_of(process: ChildProcess, streams: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yields (stream, chunk) as they come, those of the first stream first; an empty chunk ends a stream."""
    deadline = None
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            if deadline is None and process.poll() is not None:  # asked before the streams: all it wrote is in them
                deadline = time.monotonic() + _LAST_SECS
            ready = {key.fd for key, _ in selector.select(_POLL_SECS)}
            if deadline is not None and (not ready or time.monotonic() > deadline):
                break
            for stream in [stream for stream in streams if stream in ready]:
                chunk = os.read(stream, _CHUNK)
                if not chunk:
                    selector.unregister(stream)
                yield stream, chunk
        for key in list(selector.get_map().values()):
            yield key.fd, b""


class Lines:
    """The lines of one stream, which comes in chunks."""

    def __init__(self) -> None:
        utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._begun: list[str] = []  # parts of a line, which may be long

    def after(self, chunk: bytes) -> list[str]:
        """Returns the lines that a chunk completes; an empty chunk ends the stream."""
        part, *others = self._decoder.decode(chunk, final=not chunk).split("\n")
        self._begun += [part] if part else []
        lines = []
        if others or (not chunk and self._begun):
            lines = ["".join(self._begun), *others[:-1]]
            self._begun = [others[-1]] if others and others[-1] else []
        if not chunk and self._begun:
            lines.append(self._begun.pop())
        return lines


class TaskOutput:
    """The output of a task as its launcher remembers it.

    The error that ends a task, and the frames of the user's code before it, are held back until the task has ended:
    the launcher shows the cause of a failed job once.

    Args:
      last: number of the last lines that are kept.

    Attributes:
      lines: the last lines, without empty ones and those held back.
      held_back: the lines that are not shown yet.
      error: the text of the last error; "" without one.
      page: the page of the documents that helps with it; "" without one.
      error_time: seconds of a monotonic clock at the first error; infinite without one.
      exception: the last line of the last traceback; "" without one.
    """

    def __init__(self, last: int) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=last)
        self.held_back: list[str] = []
        self.error, self.page, self.error_time = "", "", float("inf")
        self.exception = ""
        self._in_frames = self._in_traceback = False

    def add(self, is_error: bool, line: str) -> bool:
        """Takes in a line; returns True if it is to be shown now."""
        if is_error:
            self._follow_traceback(line)
        if is_error and line.startswith(ERROR_BEGINS):
            self.error, self.page = split_page(line.removeprefix(ERROR_BEGINS))
            self._in_frames = False
            self.error_time = min(self.error_time, time.monotonic())
        elif is_error and line.startswith(FRAMES_BEGIN):
            self._in_frames = True
        elif not (is_error and self._in_frames):
            if line.strip():
                self.lines.append(line)
            return True
        self.held_back.append(line)
        return False

    def frames(self) -> list[str]:
        """Returns the lines before the error that show frames of the user's code."""
        return [line for line in self.held_back if not line.startswith(ERROR_BEGINS)]

    def cause(self) -> str:
        """Returns the error, or else the last exception, or the last line; other threads may have written after it."""
        return self.error or self.exception or (self.lines[-1].strip() if self.lines else "it printed nothing")

    def _follow_traceback(self, line: str) -> None:
        if line.startswith(_TRACEBACK_BEGINS):
            self._in_traceback = True
        elif self._in_traceback and line.strip() and not line.startswith(" "):
            self.exception, self._in_traceback = line.strip(), False
