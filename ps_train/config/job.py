"""The Job: one frozen, validated value that describes a run completely.

    job = Job(model="ps_train.models.digits:Digits", max_steps=500)

Every process of a run gets the same Job.  The metadata of each field hold its help, the check of its value, and a mark
if all processes must agree on it.  `ps_train/config/flags.py` makes one flag of each field.  This module depends on
neither absl nor TensorFlow.  A caller may attach the `sources` of the values for better error texts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ps_train.config.fault_spec import FORMS, parse
from ps_train.config.fields import check_fields, job_field, job_fields, source_of
from ps_train.config.validation import validate_combinations
from ps_train.config.validators import above, at_least, integer_or, one_of, optional
from ps_train.errors import ConfigError

UPDATES = ("async", "bounded", "sync")
ON_NAN = ("stop", "skip")
RESTARTS = ("never", "on_failure")
STATIC, DYNAMIC = SHARDINGS = ("static", "dynamic")
RECOVERIES = ("partial", "consistent")
AUTO = "auto"
LONGEST_AUTO_CALL = 8
"""Maximum steps of a call of `session.run` under steps_per_run=auto.  See docs/decisions/0013-steps-per-run.md."""

OPTIMIZERS = ("sgd", "momentum", "adam", "adagrad", "ftrl", "rmsprop", "lazy_adam", "rowwise_adagrad")

HELD_PORT_VARIABLE = "PS_TRAIN_HELD_PORT_FD"
"""Environment variable: the socket, inherited from the launcher, that reserves the task's port."""

WATCH_STDIN_VARIABLE = "PS_TRAIN_WATCH_STDIN"
"""Environment variable: set if standard input is a pipe that closes when the launcher ends."""

HOST_LISTS = ("ps_hosts", "worker_hosts", "chief_hosts")


_HOSTS = "Comma-separated host:port list; the order is the task index and must be the same everywhere."


@dataclasses.dataclass(frozen=True)
class Job:
    """Complete description of a run.

    Raises:
      ConfigError: a value is not allowed; the text shows field, value and source.
    """

    ps_hosts: tuple[str, ...] = job_field((), "cluster", _HOSTS, shared=True)
    worker_hosts: tuple[str, ...] = job_field(
        (), "cluster", _HOSTS + "  An entry may be INDEX=host:port where a task does not know all workers.", shared=True
    )
    chief_hosts: tuple[str, ...] = job_field(
        (), "cluster", "host:port of the chief; without one, worker 0 is the chief.", shared=True
    )
    num_ps: int | None = job_field(None, "cluster", "Local mode: how many ps. [1]", optional(at_least(1)), kind=int)
    num_workers: int | None = job_field(
        None,
        "cluster",
        "Local mode: how many workers. [2]  With INDEX=host:port lists: how many workers the job has.",
        optional(at_least(1)),
        kind=int,
    )

    cluster_file: str = job_field(
        "", "cluster", "JSON file with the host lists, like TF_CONFIG; it may change any time."
    )
    elastic: bool = job_field(
        False, "cluster", "Workers in nobody's host list may join, and any may leave.", shared=True
    )
    max_workers: int = job_field(16, "cluster", "elastic: at most so many workers at a time.", at_least(1), shared=True)

    restart: str = job_field(
        "never", "cluster", "Local mode: whether a process that failed is started again.", one_of(RESTARTS)
    )
    max_restarts: int = job_field(3, "cluster", "Local mode: how many times each process may be.", at_least(1))

    inject: tuple[str, ...] = job_field((), "cluster", f"Local mode: faults that happen to the job: {FORMS}.")

    model: str = job_field("ps_train.models.digits:Digits", "model", "package.module:Class.", shared=True)
    model_arg: tuple[str, ...] = job_field(
        (), "model", "key=value for the model's constructor; may be repeated.", shared=True
    )
    data_dir: str = job_field("", "model", "Directory of the data files, for models that read files.")
    optimizer: str | None = job_field(
        None, "model", "Optimizer. [the model's own]", optional(one_of(OPTIMIZERS)), shared=True, kind=str
    )
    learning_rate: float | None = job_field(
        None, "model", "Learning rate. [the model's own]", optional(above(0)), shared=True, kind=float
    )

    update: str = job_field("async", "training", "When a gradient becomes a new value.", one_of(UPDATES), shared=True)
    staleness: int = job_field(
        1,
        "training",
        "bounded: how many steps a worker may be ahead of the slowest live one.",
        at_least(0),
        shared=True,
    )
    backup_workers: int = job_field(
        0, "training", "sync: how many workers of an update need not be waited for.", at_least(0), shared=True
    )
    min_workers: int = job_field(
        1, "training", "When fewer workers than this remain, the job ends with an error.", at_least(1)
    )
    max_staleness: int | None = job_field(
        None,
        "training",
        "async, bounded: drop gradients that are older by more updates than this.",
        optional(at_least(0)),
        shared=True,
        kind=int,
    )
    staleness_lr: bool = job_field(
        False, "training", "async, bounded: divide the learning rate of an update by its staleness.", shared=True
    )
    delay_compensation: float = job_field(
        0.0,
        "training",
        "async, bounded: strength of the correction of stale gradients (DC-ASGD).",
        at_least(0),
        shared=True,
    )
    max_steps: int = job_field(2000, "training", "The job ends at exactly this global step.", at_least(1), shared=True)
    batch_size: int = job_field(32, "training", "Examples in one batch of one worker.", at_least(1))
    accumulate: int = job_field(
        1, "training", "Batches whose mean gradient is one push, as if the batch were larger.", at_least(1), shared=True
    )
    steps_per_run: str = job_field(
        AUTO,
        "training",
        "How many steps one session.run makes.  auto: as many as leave the loop quick to react.",
        integer_or(AUTO),
    )
    prefetch_pulls: int = job_field(
        0,
        "training",
        "async: pull so many steps ahead within a run; hides the network's delay, at the price of staleness.",
        one_of((0, 1)),
        shared=True,
    )
    epochs: int = job_field(0, "training", "Passes over the data; 0: as many as max_steps needs.", at_least(0))
    sharding: str = job_field(
        STATIC,
        "training",
        "Who trains on which examples.  static: each worker on its own share.  dynamic: shards are handed out, and the "
        "checkpoint knows which examples were used.",
        one_of(SHARDINGS),
        shared=True,
    )
    shard_examples: int | None = job_field(
        None,
        "training",
        "dynamic: examples in a shard. [up to 16 batches]",
        optional(at_least(1)),
        shared=True,
        kind=int,
    )
    shuffle_buffer: int = job_field(
        10_000, "training", "Examples in the shuffle buffer; 0 keeps the order of the data.", at_least(0)
    )
    max_bad_lines: int = job_field(
        100, "training", "Malformed lines of input that one process skips before it gives up.", at_least(0)
    )
    seed: int = job_field(1, "training", "Seed of initial values, shuffling and dropout.", at_least(0), shared=True)

    l2: float = job_field(0.0, "gradients", "Strength of the L2 term in the gradients.", at_least(0), shared=True)
    clip_value: float | None = job_field(
        None, "gradients", "Clip every element to -x..x.", optional(above(0)), shared=True, kind=float
    )
    clip_norm: float | None = job_field(
        None, "gradients", "Clip each variable's gradient to this norm.", optional(above(0)), shared=True, kind=float
    )
    clip_global_norm: float | None = job_field(
        None, "gradients", "Clip all gradients together to this norm.", optional(above(0)), shared=True, kind=float
    )
    on_nan: str = job_field(
        "stop",
        "gradients",
        "When a loss or gradient is no finite number: stop the whole job, or skip that gradient and count it.",
        one_of(ON_NAN),
        shared=True,
    )

    model_dir: str = job_field("", "saving", "Directory of checkpoints, event files and result.json; only the chief's.")
    save_steps: int = job_field(
        0, "saving", "Save a checkpoint every so many global steps; 0: by time only.", at_least(0)
    )
    save_secs: float = job_field(
        60.0, "saving", "Save a checkpoint every so many seconds; 0: by steps only.", at_least(0)
    )
    keep_checkpoints: int = job_field(5, "saving", "How many checkpoints are kept.", at_least(1))
    async_save: bool = job_field(
        True, "saving", "Write a checkpoint from copies on the ps while training goes on; else hold it up meanwhile."
    )
    snapshot_mb: int = job_field(
        256, "saving", "Where a ps holds more MiB than this no copy is made, as under --noasync_save.", at_least(0)
    )
    export_dir: str = job_field(
        "", "saving", "Write the trained model here as a SavedModel, at the end; the chief does."
    )

    startup_timeout_secs: float = job_field(
        120.0, "time-outs", "How long a task waits for the tasks it needs before it gives up.", above(0)
    )
    recovery_secs: float = job_field(
        60.0, "time-outs", "How long a ps or worker that stopped answering is waited for.", above(0)
    )
    ps_recovery: str | None = job_field(
        None,
        "time-outs",
        "When a ps comes back empty: restore only what it had, or roll all back to one step. [partial under async]",
        optional(one_of(RECOVERIES)),
        kind=str,
    )
    finish_timeout_secs: float = job_field(
        60.0, "time-outs", "How long the chief waits for the other workers at the end.", above(0)
    )
    worker_lease_secs: float = job_field(
        10.0, "time-outs", "A worker that says nothing for so long no longer counts as alive.", above(0)
    )

    log_secs: float = job_field(2.0, "output", "Seconds between progress lines.", above(0))
    clocks_dir: str = job_field(
        "", "output", "Write when each step of each worker began and ended, into one CSV file per worker, here."
    )
    verbose: bool = job_field(False, "output", "Show more: environment settings, start-up phases, TensorFlow's log.")

    gpus: int = job_field(-1, "devices", "GPUs a worker may use; -1: all.  A ps never sees one.", at_least(-1))
    gpu_memory_growth: bool = job_field(True, "devices", "Take GPU memory as needed instead of all at once.")

    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, self.sources)
        validate_combinations(self, lambda name: described(self, name))
        parse(self.inject)
        self.model_arguments()

    @property
    def is_dynamic(self) -> bool:
        """Returns True if shards of the data are assigned dynamically."""
        return self.sharding == DYNAMIC

    @property
    def recovery_mode(self) -> str:
        """Returns one of RECOVERIES: the given mode, or the default of the update mode."""
        return self.ps_recovery or ("partial" if self.update == "async" else "consistent")

    @property
    def longest_call(self) -> int:
        """Returns the maximum number of steps of a call of `session.run`; 1 if each step is timed."""
        if self.clocks_dir:
            return 1
        if self.steps_per_run == AUTO:
            return LONGEST_AUTO_CALL * 2 if self.prefetch_pulls else LONGEST_AUTO_CALL
        return int(self.steps_per_run)

    @property
    def may_run_out_of_input(self) -> bool:
        """Returns True if the input may end within a push of several batches, or a call of several steps."""
        return self.accumulate > 1 or (self.longest_call > 1 and self.epochs > 0)

    def model_arguments(self) -> dict[str, str]:
        """Returns `model_arg` as a dict; the last value of a repeated key counts."""
        arguments = {}
        for text in self.model_arg:
            key, equals, value = text.partition("=")
            if not equals or not key.isidentifier():
                raise ConfigError(
                    f"model_arg={text}{source_of(self.sources, 'model_arg')} is not of the form key=value: "
                    "use for example --model_arg=hidden=64."
                )
            arguments[key] = value
        return arguments

    def shared_fields(self) -> dict[str, Any]:
        """Returns the fields on which all tasks must agree, in a form that JSON leaves unchanged."""
        shared = {f.name: getattr(self, f.name) for f in job_fields(Job) if f.metadata["shared"]}
        shared["model_arg"] = sorted(f"{key}={value}" for key, value in self.model_arguments().items())
        if self.cluster_file:  # the addresses in the file may change later
            shared |= {"worker_hosts": (), "ps_hosts": len(self.ps_hosts), "chief_hosts": len(self.chief_hosts)}
        return json.loads(json.dumps(shared))


def described(job: Job, name: str) -> str:
    """Returns `name=value (from source)` for error texts."""
    value = getattr(job, name)
    text = ",".join(value) if isinstance(value, tuple) else value
    return f"{name}={text}{source_of(job.sources, name)}"
