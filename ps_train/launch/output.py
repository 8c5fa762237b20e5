"""The output of a child process: the lines of its standard output and of its standard error.

    for is_error, line in lines_of(process):
        ...

One thread reads both, so a line that was written to one stream before a line to the other is also read before it.  A
process that the child has started may outlive the child and keep its streams open: nothing waits for it.  Standard
library only.
"""

from __future__ import annotations

import codecs
import io
import os
import selectors
import time
from collections.abc import Iterator, Sequence

from ps_train.launch.fork import Process
from ps_train.runtime.console import ERROR_BEGINS

_CHUNK = 1 << 16
_POLL_SECS = 0.2

_LAST_SECS = 1.0
"""Seconds after the end of the child during which lines are still read."""


def lines_of(process: Process) -> Iterator[tuple[bool, str]]:
    """Yields (True for standard error, line without its end) until both streams or the process have ended."""
    assert process.stdout is not None and process.stderr is not None
    streams = {process.stdout.fileno(): _Lines(), process.stderr.fileno(): _Lines()}
    errors = process.stderr.fileno()
    with process.stdout, process.stderr:
        for stream, chunk in _chunks_of(process, list(streams)):
            for line in streams[stream].after(chunk):
                yield stream == errors, line


def _chunks_of(process: Process, streams: Sequence[int]) -> Iterator[tuple[int, bytes]]:
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


class _Lines:
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


def cause_in(lines: Sequence[str]) -> str:
    """Returns the last error line of a child's output; TensorFlow's own log may have written lines after it."""
    errors = [line.removeprefix(ERROR_BEGINS) for line in lines if line.startswith(ERROR_BEGINS)]
    return errors[-1] if errors else lines[-1]
