"""Flags that have another name than in an earlier version."""

from __future__ import annotations

_NEW_NAMES = {
    "async_save": "--max_snapshot_mib=0 for --noasync_save, and nothing for --async_save",
    "clocks_dir": "--timeline_dir",
    "elastic": "--max_workers=16",
    "inject": "--inject_fault",
    "recovery_secs": "--recovery_timeout_secs",
    "restart": "--max_restarts=3 for --restart=on_failure, and nothing for --restart=never",
    "snapshot_mb": "--max_snapshot_mib",
    "staleness": "--max_steps_ahead",
    "staleness_lr": "--divide_lr_by_staleness",
    "worker_lease_secs": "--heartbeat_timeout_secs",
}


def replacement_of(name: str) -> str:
    """Returns what to use in place of an old flag, given by its name with or without a leading `no`; "" if unknown."""
    return _NEW_NAMES.get(name) or _NEW_NAMES.get(name.removeprefix("no"), "")
