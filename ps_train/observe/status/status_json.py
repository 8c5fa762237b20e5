"""The JSON of the status page: an example of each answer, and the meaning of its keys.

    STATUS["step"], KEYS["eta_secs"]        # 1200, "null for a job without an end"

Other programs read this JSON.  New keys may appear within a version; a key that goes, or changes its meaning, makes a
new version.  `Board` makes the answers, and its tests compare their keys with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION = 1
"""Version of the JSON."""

PATHS = {
    "/": "The page.",
    "/api/status": "The present state.",
    "/api/history": "The curves: at most 1000 points; a longer job keeps every second one, and so on.",
    "/api/end": "As `/api/status`, but answers at the end of the job or after 8 s.",
    "/metrics": "The present state for Prometheus.",
    "/healthz": "`ok`; with `--health_port` from every separately started task, as `ok worker:1`.",
}
"""The paths of the status page."""

_RESOURCES = {
    "cpu": 0.4,
    "cores": 8,
    "rss_bytes": 312000000,
    "memory_limit_bytes": 25000000000,
    "sent_bytes_per_sec": 1000000.0,
    "received_bytes_per_sec": 2000000.0,
}
_STALE = {"mean": 0.9, "p95": 2, "max": 4, "conflict_rate": 0.6, "histogram": {"0": 480, "1": 700}}

STATUS: Mapping[str, Any] = {
    "version": VERSION,
    "time": 1760000000.0,
    "job": {
        "model": "ps_train.models.digits:Digits",
        "update": "bounded",
        "model_dir": "runs/digits-bounded-20261009-101500",
        "batch_size": "64..512",
        "num_ps": 1,
        "num_workers": 1,
        "ps_train": "0.1.0",
        "tensorflow": "2.21.0",
    },
    "state": "training",
    "cause": None,
    "step": 1200,
    "max_steps": 2000,
    "start_time": 1759999990.0,
    "elapsed_secs": 10.0,
    "eta_secs": 6.7,
    "loss": 0.31,
    "loss_rise": 0.0,
    "steps_per_sec": 120.0,
    "examples_per_sec": 15360.0,
    "skipped": 0,
    "dropped": 0,
    "batch_size": 128,
    "max_steps_ahead": None,
    "backup_workers": None,
    "local_steps": None,
    "push_codec": None,
    "rounds": None,
    "metrics": {"accuracy": 0.94},
    "slices": {"field": "country", "rows": [{"value": "de", "metrics": {"examples": 812, "accuracy": 0.91}}]},
    "step_time": {
        "worker:0": {
            "step": 1150,
            "secs": 0.0081,
            "input": 0.0004,
            "pull": 0.0004,
            "compute": 0.0062,
            "push": 0.0004,
            "wait": 0.0,
            "update": 0.0002,
            "other": 0.0005,
            "transfer": 0.0,
        }
    },
    "staleness": {**_STALE, "per_worker": {"worker:0": _STALE}},
    "waiting": {"share": 0.12, "per_worker": {"worker:0": 0.12}},
    "ps": [
        {
            "task": "ps:0",
            "address": "127.0.0.1:40001",
            "state": "serving",
            **_RESOURCES,
            "variables": 6,
            "variable_bytes": 97000000,
            "share": 1.0,
            "measured_network": [450000000.0, 160000000.0],
        }
    ],
    "workers": [
        {
            "task": "worker:0",
            "location": "worker:0 on host-a, pid 42",
            "state": "training",
            "heartbeat_age_secs": 0.4,
            "is_chief": True,
            "ps": None,
            "rack": None,
            "is_aggregator": False,
            **_RESOURCES,
            "steps": 600,
            "steps_per_sec": 120.0,
            "examples_per_sec": 15360.0,
        }
    ],
    "core": {"bytes_per_step": 2000000, "flat_bytes_per_step": 6000000, "bytes_per_sec": 6200000.0},
    "stream": {
        "lag": 1200.0,
        "unit": "rows",
        "growth": 0.9,
        "partitions": [{"partition": 0, "lag": 1200.0, "task": "worker:0"}],
        "late_rows": 2,
        "next_cut": 1760054400.0,
    },
    "save": {"count": 2, "last_step": 1000, "hold_secs_mean": 0.004, "hold_secs_max": 0.006, "late": 0},
    "side_work": {"deltas": {"secs": 4.2, "reason": "[Errno 28] No space left on device"}},
    "events": [
        {"time": 1760000000.0, "kind": "joined", "task": "worker:1", "text": "worker:1 on host-b, pid 7 joined"}
    ],
    "health": [
        {
            "rule": "hold_share",
            "task": "",
            "title": "time that checkpoints hold pushes",
            "value": 0.0008,
            "limit": 0.05,
            "unit": "share",
            "state": "ok",
            "text": "time that checkpoints hold pushes 0.1% (limit 5.0%)",
            "advice": "",
            "page": "checkpoints#save",
        }
    ],
    "log": [{"time": 1760000000.0, "level": "warning", "text": "worker:1 on host-b, pid 7 is lost"}],
}
"""An answer of /api/status; of a section with several tasks or lines it has one."""

HISTORY: Mapping[str, Any] = {
    "version": VERSION,
    "points": [
        {
            "time": 1760000000.0,
            "step": 1200,
            "loss": 0.31,
            "steps_per_sec": 120.0,
            "examples_per_sec": 15360.0,
            "staleness": 0.9,
            "waiting": 0.12,
            "workers": {"worker:0": 15360.0},
        }
    ],
    "evaluations": [{"step": 1000, "metrics": {"loss": 0.4, "accuracy": 0.93}}],
}
"""An answer of /api/history; `workers` are examples per second."""

KEYS = {
    "job.batch_size": "the flag: a number, or a text with two bounds",
    "state": "`starting`, `training`, `recovering`, `finishing`, `done`, `stopped` or `failed`",
    "cause": "the error of a failed job, or the reason of an early end",
    "eta_secs": "null, as `max_steps`, for an Estimator that trains without a limit",
    "batch_size": "present value if it follows measurements, else null; also `max_steps_ahead`, `backup_workers`, "
    "`push_codec`; `local_steps` of a job with them",
    "rounds": "exchanges of local steps in this run, null without them",
    "slices": "null without `--eval_by`",
    "step_time": "seconds of the newest traced step; all parts but `transfer` (copies to a GPU) add up to `secs`",
    "staleness": "null under sync",
    "waiting": "null under async",
    "ps.state": "`serving` or `silent`; of any task of a finished job `ended`",
    "ps.cpu": "cores in use, of the `cores` that the process may use",
    "ps.sent_bytes_per_sec": "over the TCP connections of the process",
    "ps.memory_limit_bytes": "of the cgroup or the machine, the smaller",
    "ps.share": "part of all bytes of variables",
    "ps.measured_network": "bytes a second from and to the ps, by the doctor",
    "workers.state": "`absent`, `preparing`, `starting`, `training`, `recovering`, `waiting`, `waiting for the rack`, "
    "`input ended`, `leaving`, `left` or `lost`",
    "workers.ps": "the ps in the same process (`--ps_on_workers`)",
    "workers.is_aggregator": "whether it adds up the gradients of its rack",
    "core": "bytes between racks, and without racks; null without `--rack_file`",
    "stream": "null without data without an end",
    "events": "the newest 200",
    "health.unit": "`share` (0 to 1), `secs` or `ratio`",
    "health.state": "`ok`, `warn` or `unknown`",
    "health.page": "page and heading that help: `python -m ps_train help checkpoints#save`",
    "log": "the newest 100 warnings and lines of the chief",
}
"""Keys of STATUS that their name does not explain, and their meanings; "ps.share" is a key of each entry of `ps`."""
