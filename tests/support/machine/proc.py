"""What /proc tells of processes; nothing of those that have ended."""

from __future__ import annotations

import contextlib
import pathlib


def stat_of(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """All living descendants of a process whose parents live."""
    entries = pathlib.Path("/proc").iterdir()
    parents = {int(entry.name): stat_of(int(entry.name)) for entry in entries if entry.name.isdigit()}

    def below(parent: int) -> list[int]:
        children = [child for child, fields in parents.items() if fields and int(fields[1]) == parent]
        return [found for child in children for found in (child, *below(child))]

    return below(pid)


def is_alive(pid: int) -> bool:
    state = stat_of(pid)[:1]
    return bool(state) and state[0] not in ("Z", "X")


def marked(mark: str) -> list[int]:
    """The living processes that were started with this entry (name=value) in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has just ended, or belongs to another user
            if mark.encode() in path.read_bytes().split(b"\0") and is_alive(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def name_of(pid: int) -> str:
    """What it calls itself: our tasks, by their names (`ps:0`); they may have their launcher's command line."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def task_of(launcher: int, task: str) -> int:
    """The descendant that is a task ("ps:0") of a job that one command started on this machine."""
    for pid in descendants(launcher):
        if name_of(pid) == task:
            return pid
    raise AssertionError(f"no {task} among the descendants")


def command_of(pid: int) -> str:
    """Its command line."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
