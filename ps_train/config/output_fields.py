"""Fields of the Job about what a process writes and uses: checkpoints, logs and devices."""

from __future__ import annotations

import dataclasses
import re

from ps_train.config.fields import job_field
from ps_train.config.metric_rule import parse_early_stop, parse_export
from ps_train.config.validators import (
    HEALTH_RULES,
    Check,
    above,
    at_least,
    integer_or,
    is_parsed_by,
    one_of,
    optional,
    parse_limits,
)

_RECOVERIES = ("partial", "consistent")
_MOST_PROFILED = 1000
_EARLY_STOP = Check(
    "METRIC:EVALUATIONS, for example auc:3", lambda text: not text or parse_early_stop(text) is not None
)
_LIMITS = Check(f"RULE:NUMBER,... with rules of {', '.join(HEALTH_RULES)}", is_parsed_by(parse_limits))
_PORT = Check("-1, or a number from 0 to 65535", lambda port: -1 <= port <= 65535)


def parse_profile(text: str) -> tuple[int, int] | None:
    """Returns the first step and the number of steps of a profile; None if the text is not STEP:COUNT."""
    found = re.fullmatch(r"([0-9]{1,15}):([0-9]{1,4})", text)
    return (int(found[1]), int(found[2])) if found and 1 <= int(found[2]) <= _MOST_PROFILED else None


_PROFILE = Check(
    f"STEP:COUNT with 1 to {_MOST_PROFILED} steps, for example 200:20",
    lambda text: not text or parse_profile(text) is not None,
)
_EXPORTS = Check("one of final, latest, best, or best:METRIC", lambda text: parse_export(text) is not None)


@dataclasses.dataclass(frozen=True)
class OutputFields:
    """Fields about files, logs and devices; each has its help and its check."""

    model_dir: str = job_field(
        "",
        "checkpoints",
        "Directory of checkpoints, event files and result.json; only the chief's. [local mode: runs/MODEL-UPDATE-TIME]",
        common=True,
    )
    save_steps: int = job_field(
        0, "checkpoints", "Save a checkpoint every so many global steps; 0: by time only.", at_least(0)
    )
    save_secs: float = job_field(
        60.0, "checkpoints", "Save a checkpoint every so many seconds; 0: by steps only.", at_least(0), common=True
    )
    keep_checkpoints: int = job_field(5, "checkpoints", "How many checkpoints are kept.", at_least(1))
    ignore_checkpoints: bool = job_field(
        False,
        "checkpoints",
        "Start at step 0 although model_dir has checkpoints; the chief moves these into a directory in it.",
    )
    max_snapshot_mib: int = job_field(
        256,
        "checkpoints",
        "A checkpoint is written from copies on the ps while training goes on, unless a ps holds more MiB than this; "
        "then pushes are held until the file is written.  0: no copies.",
        at_least(0),
    )
    ps_recovery: str | None = job_field(
        None,
        "checkpoints",
        "When a ps comes back empty: restore only what it had, or roll all back to one step. [partial under async]",
        optional(one_of(_RECOVERIES)),
    )
    export_dir: str = job_field(
        "",
        "checkpoints",
        "Write the trained model at the end as a SavedModel into the next numbered directory here; the chief does.",
        common=True,
    )
    export: str = job_field(
        "final",
        "checkpoints",
        "The models that export_dir gets: that of the end, by the chief; or, by the evaluator, the latest after each "
        "evaluation, or each that is the best so far, by the model's first metric or by METRIC (-METRIC: smaller is "
        "better).  The evaluator keeps its last 5 exports.",
        _EXPORTS,
    )

    eval_every_secs: float = job_field(
        0.0,
        "evaluation",
        "Least seconds between the beginnings of two evaluations of the evaluator; the last one is never delayed.",
        at_least(0),
    )
    early_stop: str = job_field(
        "",
        "evaluation",
        "METRIC:EVALUATIONS, such as auc:3: end the job when the evaluator has scored so many checkpoints without a "
        "better value of this metric (-METRIC: smaller is better).",
        _EARLY_STOP,
    )

    log_dir: str = job_field(
        "", "output", "Every task writes its output to JOB_INDEX.log here, and a failure to JOB_INDEX.error.json."
    )
    log_secs: float = job_field(2.0, "output", "Seconds between progress lines.", above(0))
    summary_steps: int = job_field(
        100,
        "output",
        "Write the model's summaries (tf.compat.v1.summary) every so many steps; 0: never.",
        at_least(0),
    )
    timeline_dir: str = job_field(
        "", "output", "Write when each step of each worker began and ended, into one CSV file per worker, here."
    )
    events_json: str = job_field(
        "", "output", "Append each lifecycle event to this file of the chief's machine, one JSON object a line."
    )
    health_limits: str = job_field(
        "",
        "output",
        "Limits of the rules of health, such as sync_share:0.3,input_share:0.2; see docs/WATCHING.md.",
        _LIMITS,
    )
    status_port: int | None = job_field(
        None,
        "output",
        "Port of the chief's status page; 0: a free one; -1: no page. [local mode: 0; else -1]",
        optional(_PORT),
    )
    status_host: str = job_field(
        "127.0.0.1", "output", "Address on which the chief serves the status page, and every task --health_port."
    )
    health_port: int | None = job_field(
        None,
        "output",
        "Port on which every task that is started on its own answers /healthz; 0: a free one; -1: none. [-1]",
        optional(_PORT),
    )
    profile: str = job_field(
        "",
        "output",
        "STEP:COUNT, such as 200:20: record every operation of so many steps of each worker, from this global step on, "
        "into one trace in model_dir, and print where their time goes.",
        _PROFILE,
    )
    verbose: bool = job_field(
        False, "output", "Show more: environment settings, start-up phases, TensorFlow's log.", common=True
    )

    gpus: int = job_field(-1, "devices", "GPUs a worker may use; -1: all.  A ps never sees one.", at_least(-1))
    towers: str = job_field(
        "1", "devices", "Devices of a worker among which it divides each batch; all: its GPUs.", integer_or("all")
    )
    gpu_memory_growth: bool = job_field(True, "devices", "Take GPU memory as needed instead of all at once.")
