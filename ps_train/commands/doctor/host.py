"""Facts about this machine, and the doctor's findings about them.

    facts = host_facts()                    # cores, memory, file descriptors of this process

The facts are read from /proc and /sys, under a root that tests replace.  Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import platform
import re
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from ps_train import __version__
from ps_train.base.console import human_bytes
from ps_train.base.network_interfaces import InterfaceAddress, are_public_ports_allowed, listed, public_addresses
from ps_train.commands.doctor.findings import FAIL, OK, WARN, Finding

NO_SERVER = ("files", "public")
"""Findings whose failure forbids a server; TensorFlow aborts the process where it cannot open a file."""

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that gRPC reads, in its order."""

_UNLIMITED = 1 << 60
_DESCRIPTORS, _DESCRIPTORS_OF_A_TASK = 256, 8
"""Open files that a process needs: those of TensorFlow and its data, and connections to each other task."""

_WRITE_BYTES, _WRITE_SECS, _SLOW_SAVE_SECS = 64 << 20, 2.0, 60.0
_BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """Facts about this machine as this process sees it.

    Attributes:
      cores: processors that the process may use; a quota of its control group counts.
      machine_cores: processors of the machine.
      available_bytes: memory that the process may still take.
      limited_by: the thing that limits the memory: "the machine" or "the control group".
      open_files: soft limit of open files.
    """

    cores: int
    machine_cores: int
    available_bytes: int
    limited_by: str
    open_files: int


def host_facts(root: str = "/") -> HostFacts:
    """Returns the facts about this machine; `root` holds `proc` and `sys`."""
    allowed = len(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    free, limit = _meminfo(root, "MemAvailable"), memory_left_in_group(root)
    return HostFacts(
        max(1, min(allowed, math.floor(quota + 0.5))) if quota else allowed,
        os.cpu_count() or allowed,
        min(free, limit),
        "the control group" if limit < free else "the machine",
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def own_memory_bytes(root: str = "/") -> int:
    """Returns the resident memory of this process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", _read(f"{root}/proc/self/status"))
    return int(found[1]) << 10 if found else 0


def cpu_quota(root: str = "/") -> float:
    """Returns the cores that the control group allows; 0 if it sets no limit."""
    least = math.inf
    for folder in _group_folders(root, "cpu"):
        quota, _, period = _read(f"{folder}/cpu.max").strip().partition(" ")
        if not quota:
            quota, period = _read(f"{folder}/cpu.cfs_quota_us").strip(), _read(f"{folder}/cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit() and int(period):
            least = min(least, int(quota) / int(period))
    return 0.0 if least == math.inf else least


def memory_left_in_group(root: str = "/") -> int:
    """Returns the bytes that the control groups of this process, versions 1 and 2, still allow."""
    left = _UNLIMITED
    for folder in _group_folders(root, "memory"):
        limit, used = _read(f"{folder}/memory.max").strip(), _read(f"{folder}/memory.current").strip()
        cache = re.search(r"^inactive_file (\d+)", _read(f"{folder}/memory.stat"), re.MULTILINE)
        if not limit:
            limit = _read(f"{folder}/memory.limit_in_bytes").strip()
            used = _read(f"{folder}/memory.usage_in_bytes").strip()
            cache = re.search(r"^total_inactive_file (\d+)", _read(f"{folder}/memory.stat"), re.MULTILINE)
        if limit.isdigit() and int(limit) < _UNLIMITED:
            taken = int(used or 0) - (int(cache[1]) if cache else 0)  # the page cache is given back
            left = min(left, max(0, int(limit) - max(0, taken)))
    return left


def _group_folders(root: str, controller: str) -> list[str]:
    """Returns the folders of this process's control group and of all groups above it."""
    found = []
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for base in ([f"{root}/sys/fs/cgroup", f"{root}/sys/fs/cgroup/unified"] if not controllers else
                     [f"{root}/sys/fs/cgroup/{controllers}", f"{root}/sys/fs/cgroup/{controller}"]):  # fmt: skip
            parts = [part for part in path.split("/") if part and part != ".."]
            found += ["/".join([base, *parts[:count]]) for count in range(len(parts), -1, -1)]
    return [folder for folder in dict.fromkeys(found) if os.path.isdir(folder)]


def _meminfo(root: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _read(f"{root}/proc/meminfo"), re.MULTILINE)
    return int(found[1]) << 10 if found else _UNLIMITED


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def versions() -> dict[str, str]:
    """Returns the versions that all tasks should share; without an import of TensorFlow."""
    import importlib.metadata

    found = {"ps_train": __version__, "Python": platform.python_version()}
    for name in ("tensorflow", "tensorflow-cpu", "tf-nightly"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return {"TensorFlow": importlib.metadata.version(name), **found}
    return found


def public_finding(allowed: bool, find: Callable[[], Sequence[InterfaceAddress]] = public_addresses) -> Finding:
    """Returns the finding about addresses that can be reached from anywhere.

    Args:
      allowed: the value of --allow_public_ports.
      find: returns the public addresses of this machine.
    """
    is_allowed = are_public_ports_allowed(allowed)
    level, no_start = (WARN, "") if is_allowed else (FAIL, ": no task starts")
    advice = "close the ports of the job in a firewall (python -m ps_train firewall)"
    advice += "" if is_allowed else " and give --allow_public_ports, or use a private network"
    try:
        found = find()
    except OSError as error:
        return Finding(level, "public", f"this machine's addresses cannot be read ({error}){no_start}", advice)
    if not found:
        return Finding(OK, "public", "no public address on this machine")
    text = f"this machine has the public address{'es' if len(found) > 1 else ''} {listed(found)}, and TensorFlow's "
    text += f"ports are open on every interface without authentication{no_start}"
    return Finding(level, "public", text, advice)


def proxy_finding(environ: Mapping[str, str], hosts: Sequence[str]) -> Finding:
    """Returns the finding about proxies between the tasks.

    Args:
      environ: the environment that the user gave, before this program changes it.
      hosts: the hosts of all tasks.
    """
    used = next((name for name in PROXIES if environ.get(name)), "")
    if not used:
        return Finding(OK, "proxy", "no proxy is set for gRPC")
    name = "no_grpc_proxy" if environ.get("no_grpc_proxy") else "no_proxy"
    excepted = [entry.strip() for entry in environ.get(name, "").split(",") if entry.strip()]
    through = [host for host in dict.fromkeys(hosts) if not any(host.endswith(entry) for entry in excepted)]
    if not through:
        return Finding(OK, "proxy", f"{used} is set, and {name} excepts all hosts of the job")
    return Finding(
        WARN,
        "proxy",
        f"{used}={environ[used]} is in the way of gRPC to {', '.join(through)}; ps_train adds them to {name} in its "
        "own processes, other programs do not",
        f"set {name}={','.join([*excepted, *through])}",
    )


def cores_finding(facts: HostFacts, tasks: Sequence[str]) -> Finding:
    """Returns the finding about processors; `tasks` are those of this machine."""
    text = f"{facts.cores} cores for {len(tasks)} task{'s' if len(tasks) != 1 else ''} on this machine"
    if facts.cores < facts.machine_cores:
        text += f" (of {facts.machine_cores}; affinity or a quota of the control group)"
    if sum(not name.startswith("ps:") for name in tasks) > facts.cores:
        return Finding(WARN, "cores", text, "workers take turns on them; use fewer workers here or more machines")
    return Finding(OK, "cores", text)


def files_finding(facts: HostFacts, tasks: int) -> Finding:
    """Returns the finding about the limit of open files; `tasks` is the number of tasks of the job."""
    needed = _DESCRIPTORS + _DESCRIPTORS_OF_A_TASK * tasks
    text = f"{facts.open_files} open files allowed (ulimit -n), {needed} needed for a job of {tasks} tasks"
    if facts.open_files >= needed or facts.open_files < 0:
        return Finding(OK, "files", text)
    return Finding(FAIL, "files", text, f"ulimit -n {max(1024, needed)} before the job")


def memory_finding(facts: HostFacts, needs: Mapping[str, int]) -> Finding:
    """Returns the finding about memory.

    Args:
      facts: of this machine.
      needs: bytes of each task on this machine, by task name.
    """
    needed = sum(needs.values())
    listed = ", ".join(f"{name} {human_bytes(count)}" for name, count in list(needs.items())[:4])
    listed += ", …" if len(needs) > 4 else ""
    text = f"{human_bytes(facts.available_bytes)} left in {facts.limited_by}, about {human_bytes(needed)} needed"
    text += f" ({listed})" if needs else ""
    if needed > facts.available_bytes:
        advice = "use more ps on other machines, an optimizer with fewer slots, or a larger limit"
        return Finding(FAIL, "memory", text, advice)
    if needed > 0.8 * facts.available_bytes:
        return Finding(WARN, "memory", text, "little is left for data and checkpoints")
    return Finding(OK, "memory", text)


def disk_findings(directory: str, checkpoint_bytes: int, kept: int) -> list[Finding]:
    """Returns the findings about the directory of the checkpoints: its free space and its write speed.

    Args:
      directory: the directory, which need not exist yet.
      checkpoint_bytes: size of a checkpoint; 0 if it is not known.
      kept: number of checkpoints that the job keeps; one more is there while the next is written.
    """
    folder = os.path.abspath(directory)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        stats = os.statvfs(folder)
        free = stats.f_bavail * stats.f_frsize
        speed = _write_bytes_per_sec(folder, min(_WRITE_BYTES, free // 4))
    except OSError as error:
        advice = "use another --model_dir" if error.errno != 28 else "free some space or use another --model_dir"
        return [Finding(FAIL, "disk", f"{directory} cannot be written to ({error.strerror})", advice)]
    needed = (kept + 1) * checkpoint_bytes
    text = f"{human_bytes(free)} free in {directory}, {human_bytes(needed)} needed for {kept + 1} checkpoints"
    text = text if checkpoint_bytes else f"{human_bytes(free)} free in {directory}"
    if needed > free:
        found = Finding(FAIL, "disk", text, "use a larger disk, another --model_dir or fewer --keep_checkpoints")
    else:
        found = Finding(WARN if free < 2 * needed else OK, "disk", text)
    secs = checkpoint_bytes / speed if speed else math.inf
    text = f"{human_bytes(speed)}/s; a checkpoint of {human_bytes(checkpoint_bytes)} takes about {secs:.1f}s"
    if secs > _SLOW_SAVE_SECS:
        return [found, Finding(WARN, "writing", text, "save less often (--save_secs) or use a faster disk")]
    return [found, Finding(OK, "writing", text)]


def _write_bytes_per_sec(folder: str, count: int) -> float:
    """Returns the speed of writing and flushing a file, which has no name and so is never left behind."""
    block, written, began = os.urandom(_BLOCK), 0, time.monotonic()
    with tempfile.TemporaryFile(dir=folder) as file:
        while written < max(_BLOCK, count) and time.monotonic() - began < _WRITE_SECS:
            written += file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return written / max(1e-6, time.monotonic() - began)
