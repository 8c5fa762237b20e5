"""Fields of the Job about what a process writes and uses: checkpoints, logs and devices."""

from __future__ import annotations

import dataclasses
import re

from ps_train.config.fields import LOCAL, REMOTE, job_field
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

_ROWS = ("float32", "int8", "bfloat16")
_WRITERS = ("chief", "ps", "auto")
_SLOTS, _STEPS = ("keep", "drop", "rebuild"), ("0", "keep")
_RECOVERIES = ("partial", "consistent")
NO_TRACKER = "none"
_TRACKERS = ("mlflow", "wandb", "tensorboard-hparams", NO_TRACKER)
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
_EXPORTS = Check(
    "one of final, latest, best, or best:METRIC; split, or one of these and ,split as latest,split",
    lambda text: parse_export(text) is not None,
)

OF_ONE_RUN = ("model_dir", "export_dir", "log_dir", "events_json", "dry_run", "inject_fault")
"""Flags of one run alone: in a study each job has its own place, and none has a dry run or faults."""


@dataclasses.dataclass(frozen=True)
class OutputFields:
    """Fields about files, logs and devices; each has its help and its check."""

    model_dir: str = job_field(
        "",
        "checkpoints",
        "Directory of the chief for checkpoints, event files and result.json; local, or on an object store as "
        "s3://bucket/run. [local mode: runs/MODEL-UPDATE-TIME]",
        page="checkpoints#files-of-a-run",
        common=True,
        path=REMOTE,
    )
    save_steps: int = job_field(
        0, "checkpoints", "Global steps between checkpoints; 0: by time only.", at_least(0), page="checkpoints#save"
    )
    save_secs: float = job_field(
        60.0,
        "checkpoints",
        "Seconds between checkpoints; 0: by steps only.",
        at_least(0),
        page="checkpoints#save",
        common=True,
    )
    save_event_secs: float = job_field(
        0.0,
        "checkpoints",
        "Data without an end: seconds of event time between exact cuts, 86400 for each midnight (UTC).  All partitions "
        "stop there until the checkpoint is written.  0: none.",
        at_least(0),
        page="data#data-without-an-end",
        shared=True,
    )
    max_event_wait_secs: float = job_field(
        60.0,
        "checkpoints",
        "Seconds that a cut by event time waits for a partition without new rows, once another has reached it.",
        at_least(0),
        page="data#data-without-an-end",
    )
    keep_checkpoints: int = job_field(
        5,
        "checkpoints",
        "Number of checkpoints to keep, and of cuts by event time beside them.",
        at_least(1),
        page="checkpoints#save",
    )
    keep_every_hours: float = job_field(
        0.0,
        "checkpoints",
        "Hours between checkpoints that stay for good, beside the newest; 0: none stay.",
        at_least(0),
        page="checkpoints#save",
    )
    ignore_checkpoints: bool = job_field(
        False,
        "checkpoints",
        "Start at step 0 although model_dir has checkpoints; the chief moves them into a subdirectory.",
        page="checkpoints#resume",
    )
    max_snapshot_mib: int = job_field(
        1024,
        "checkpoints",
        "Memory in MiB that a checkpoint may take on a ps for copies, and again for old rows of large tables, so that "
        "training continues while the file is written.  Without copies, pushes wait until the variables are written.  "
        "Beyond that many old rows, updates wait for each further part.  0: no copies.",
        at_least(0),
        page="checkpoints#save",
    )
    checkpoint_writers: str = job_field(
        "auto",
        "checkpoints",
        "Processes that write and read the variables in checkpoints.  chief: the chief.  ps: each ps its own, in the "
        "chief's directory.  auto: each ps that sees this directory, and the chief for the others.",
        one_of(_WRITERS),
        page="checkpoints#save",
    )
    ps_recovery: str | None = job_field(
        None,
        "checkpoints",
        "If a ps comes back empty: restore only its variables (partial), or all ps to one step. [partial under async]",
        optional(one_of(_RECOVERIES)),
        page="hosts#when-a-ps-dies",
    )
    delta_every_secs: float = job_field(
        0.0,
        "checkpoints",
        "Seconds between deltas of the run's checkpoints, which the chief's machine writes into model_dir/deltas; 0: "
        "none.  Checkpoints are made at least as often.",
        at_least(0),
        page="serve#deltas",
    )
    warm_start: str = job_field(
        "",
        "checkpoints",
        "Checkpoint, directory of checkpoints, SavedModel, or .keras file of a Keras model, whose values a new run "
        "begins with. "
        "A run with checkpoints in model_dir resumes from them instead.",
        page="checkpoints#warm-start",
        path=LOCAL,
    )
    warm_start_map: str = job_field(
        "",
        "checkpoints",
        "File of the names that variables have there, where they differ.",
        page="checkpoints#warm-start",
        path=LOCAL,
    )
    warm_start_slots: str = job_field(
        "keep",
        "checkpoints",
        "The optimizer's slots.  keep: the checkpoint's, where they fit.  drop: new ones.  rebuild: as keep, and sums "
        "of squares are converted between adagrad and rowwise_adagrad.",
        one_of(_SLOTS),
        page="checkpoints#warm-start",
    )
    warm_start_step: str = job_field(
        "0",
        "checkpoints",
        "Where a warm start begins: at step 0, or at the step of the checkpoint.",
        one_of(_STEPS),
        page="checkpoints#warm-start",
    )
    warm_start_report: bool = job_field(
        False,
        "checkpoints",
        "Print which values a warm start takes, which are new and which are not used, as model_dir/warm_start.txt has "
        "it.",
        page="checkpoints#warm-start",
    )
    dry_run: bool = job_field(
        False,
        "checkpoints",
        "Print the report of --warm_start and end, without any training.",
        page="checkpoints#warm-start",
    )
    export_dir: str = job_field(
        "",
        "checkpoints",
        "Directory for the trained model as a SavedModel, which the chief writes into the next numbered subdirectory.",
        page="serve#export",
        common=True,
        path=REMOTE,
    )
    export: str = job_field(
        "final",
        "checkpoints",
        "Models to export.  final: the last one, by the chief.  latest: after each evaluation, by the evaluator.  best:"
        " each that is the best so far by the model's first metric or by METRIC (-METRIC: smaller is better).  The "
        "evaluator keeps its last 5 exports.  split: final, with the tables in files of their own; also latest,split.",
        _EXPORTS,
        page="serve#export",
    )
    export_rows: str = job_field(
        "float32",
        "checkpoints",
        "Dtype of the rows of tables in exports; int8 has a scale for each row.  The loss of AUC on the test split is "
        "printed, and stored in the export.",
        one_of(_ROWS),
        page="serve#export",
    )
    export_max_auc_loss: float = job_field(
        0.001,
        "checkpoints",
        "Loss of AUC by --export_rows above which a model is not exported.",
        at_least(0),
        page="serve#export",
    )

    eval_every_secs: float = job_field(
        0.0,
        "evaluation",
        "Seconds from the start of an evaluation to the next one, at least; the last one is never delayed.",
        at_least(0),
        page="watch#evaluator",
    )
    eval_by: str = job_field(
        "",
        "evaluation",
        "FIELD: compute metrics also for each of the 20 most frequent values of this feature, and for all others "
        "together.",
        page="ranking#scores-by-field",
    )
    early_stop: str = job_field(
        "",
        "evaluation",
        "METRIC:EVALUATIONS, such as auc:3: end the job after 3 evaluations in a row without a better auc (-METRIC: "
        "smaller is better).",
        _EARLY_STOP,
        page="watch#evaluator",
    )

    log_dir: str = job_field(
        "",
        "output",
        "Directory in which every task writes its output to JOB_INDEX.log, and a failure to JOB_INDEX.error.json.",
        page="watch#output-and-logs",
        path=LOCAL,
    )
    log_secs: float = job_field(
        2.0, "output", "Seconds between progress lines.", above(0), page="watch#output-and-logs"
    )
    summary_steps: int = job_field(
        100,
        "output",
        "Steps between the model's summaries (tf.compat.v1.summary); 0: none.",
        at_least(0),
        page="models#summaries",
    )
    events_json: str = job_field(
        "",
        "output",
        "File of the chief's machine to which each lifecycle event is appended, one JSON object a line.",
        page="reference#events",
    )
    health_limits: str = job_field(
        "",
        "output",
        "Limits of the rules of health, such as sync_share:0.3,input_share:0.2.",
        _LIMITS,
        page="watch#health",
    )
    status_port: int | None = job_field(
        None,
        "output",
        "Port of the chief's status page; 0: a free one; -1: no page. [local mode: 0; else -1]",
        optional(_PORT),
        page="watch#the-status-page",
    )
    status_host: str = job_field(
        "127.0.0.1", "output", "Address of the status page, and of --health_port.", page="watch#the-status-page"
    )
    health_port: int | None = job_field(
        None,
        "output",
        "Port at which each separately started task answers /healthz; 0: a free one; -1: none. [-1]",
        optional(_PORT),
        page="watch#the-status-page",
    )
    track: str = job_field(
        NO_TRACKER,
        "output",
        "Experiment tracker that gets the run: its flags, metrics by step, health and report.",
        one_of(_TRACKERS),
        page="watch#trackers",
    )
    profile: str = job_field(
        "",
        "output",
        "STEP:COUNT, such as 200:20: from global step 200 on, record every operation of 20 steps of each worker into "
        "one trace in model_dir, and print where their time goes.",
        _PROFILE,
        page="watch#profile",
    )
    verbose: bool = job_field(
        False,
        "output",
        "Show environment settings, start-up phases and TensorFlow's log too.",
        page="watch#output-and-logs",
        common=True,
    )

    gpus: int = job_field(
        -1,
        "devices",
        "GPUs that a worker may use; -1: all.  A ps uses none.",
        at_least(-1),
        page="speed#several-devices",
    )
    towers: str = job_field(
        "1",
        "devices",
        "Devices among which a worker divides each batch; all: its GPUs.",
        integer_or("all"),
        page="speed#several-devices",
    )
    gpu_memory_growth: bool = job_field(
        True, "devices", "Take GPU memory as needed instead of all at once.", page="speed#several-devices"
    )

    @property
    def trains(self) -> bool:
        """Returns False for a job that ends with a report, and has no result."""
        return not self.dry_run
