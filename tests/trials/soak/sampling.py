"""Samples of processes from /proc, and of a model directory.

    sample_of(pid, calls=1200)          # None where the process has ended
    disk_of(model_dir, secs=60.0)

Knows nothing of jobs.
"""

from __future__ import annotations

import os
import pathlib

from tests.trials.soak.kept_rendezvous import kept_in
from tests.trials.soak.verdict import Disk, Sample

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


def disk_of(model_dir: pathlib.Path, secs: float) -> Disk:
    """Returns what is in the directory now; files come and go meanwhile."""
    events = others = files = 0
    for folder, _, names in os.walk(model_dir):
        for name in names:
            try:
                size = os.stat(os.path.join(folder, name)).st_size
            except OSError:
                continue
            files += 1
            events += size if ".tfevents." in name else 0
            others += size if ".tfevents." not in name else 0
    return Disk(secs, events, others, files)


def _numbers(text: str) -> dict[str, int]:
    """Returns the numbers of lines such as `Rss:   1234 kB`."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found
