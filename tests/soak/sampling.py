"""Samples of processes from /proc.

    sample_of(pid, calls=1200)          # None where the process has ended

Knows nothing of jobs.
"""

from __future__ import annotations

import os
import pathlib

from tests.soak.kept_rendezvous import kept_in
from tests.soak.verdict import Sample

_KIB = 1024


def sample_of(pid: int, calls: int) -> Sample | None:
    process = pathlib.Path(f"/proc/{pid}")
    try:
        memory = _numbers((process / "smaps_rollup").read_text())
        threads = _numbers((process / "status").read_text())["Threads"]
        fds = len(os.listdir(process / "fd"))
    except (OSError, KeyError):
        return None
    rss, pss, anonymous = (memory.get(name, 0) * _KIB for name in ("Rss", "Pss", "Anonymous"))
    return Sample(calls, rss, pss, anonymous, fds, threads, kept_in(pid) or 0) if rss else None


def _numbers(text: str) -> dict[str, int]:
    """Returns the numbers of lines such as `Rss:   1234 kB`."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found
