"""Fields of the Job about the training itself: model, data, steps, updates and gradients."""

from __future__ import annotations

import dataclasses

from ps_train.base.bounds import Bounds
from ps_train.config.codec_spec import CASTS, INT8, NONE
from ps_train.config.fields import REMOTE, job_field
from ps_train.config.following_values import (
    backup_workers,
    batch_size,
    local_steps,
    max_steps_ahead,
    parse_backups,
    parse_batch_size,
    parse_local_steps,
    parse_steps_ahead,
    possible_codecs,
    push_codec,
)
from ps_train.config.optimizer_arguments import ARGUMENTS, OUTER_ARGUMENTS
from ps_train.config.validators import AUTO, above, at_least, integer_or, one_of, optional

OPTIMIZERS = tuple(ARGUMENTS)
OUTER_OPTIMIZERS = tuple(OUTER_ARGUMENTS)

_UPDATES = ("async", "bounded", "sync")
_ON_NAN = ("stop", "skip")
_FLOAT16 = "float16"
_MOST_BATCHES = 1_000_000
"""Most batches of a push: with more of them the job would seem to stand still."""

_COMPUTE_DTYPES = ("float32", "bfloat16", _FLOAT16)
_STATIC, _DYNAMIC = _SHARDINGS = ("static", "dynamic")


@dataclasses.dataclass(frozen=True)
class TrainingFields:
    """Fields about the training; each has its help and its check."""

    model: str = job_field(
        "ps_train.models.digits:Digits",
        "model",
        "package.module:Class.",
        page="models#a-model",
        shared=True,
        common=True,
    )
    model_arg: tuple[str, ...] = job_field(
        (),
        "model",
        "key=value for the model's constructor; may be repeated.",
        page="models#a-model",
        shared=True,
        common=True,
        repeated=True,
    )
    optimizer: str | None = job_field(
        None,
        "model",
        "Optimizer by name; --optimizer_arg sets its arguments. [the model's own]",
        optional(one_of(OPTIMIZERS)),
        page="models#optimizers",
        shared=True,
        common=True,
    )
    optimizer_arg: tuple[str, ...] = job_field(
        (),
        "model",
        "name=value for the named optimizer, as epsilon=1e-6; several with commas, or by repeating the flag.",
        page="models#optimizers",
        shared=True,
        repeated=True,
        listed=True,
    )
    learning_rate: float | None = job_field(
        None,
        "model",
        "Learning rate. [the model's own]",
        optional(above(0)),
        page="models#learning-rate",
        shared=True,
        common=True,
    )
    warmup_steps: int = job_field(
        0,
        "model",
        "Global steps in which the learning rate grows evenly up to its value; 0: none.",
        at_least(0),
        page="models#learning-rate",
        shared=True,
    )

    data_dir: str = job_field(
        "",
        "data",
        "Directory of the data files, for models that read files.",
        page="models#shipped-models",
        common=True,
        path=REMOTE,
    )
    batch_size: int | str = job_field(
        32,
        "data",
        "Examples in a batch of one worker.  64..512: between 64 and 512, following the network.",
        batch_size,
        page="speed#learning-rate-and-batch-size-with-more-workers",
        common=True,
    )
    epochs: int = job_field(
        0,
        "data",
        "Passes over the data; 0: until max_steps.",
        at_least(0),
        page="data#shares-of-the-workers",
        common=True,
    )
    sharding: str = job_field(
        _STATIC,
        "data",
        "Division of the examples among workers.  static: each worker reads its own share.  dynamic: workers take "
        "shards, and the checkpoint records the used examples.",
        one_of(_SHARDINGS),
        page="data#each-example-exactly-once",
        shared=True,
    )
    shard_examples: int | None = job_field(
        None,
        "data",
        "examples in a shard. [up to 16 batches]",
        optional(at_least(1)),
        page="data#each-example-exactly-once",
        shared=True,
    )
    shuffle_buffer: int = job_field(
        10_000,
        "data",
        "Examples in the shuffle buffer; 0 keeps the order of the data.",
        at_least(0),
        page="data#shares-of-the-workers",
    )
    max_batch_wait_secs: float = job_field(
        5.0,
        "data",
        "Data without an end: seconds that a row waits for others, before a batch is smaller than batch_size.",
        at_least(0),
        page="data#data-without-an-end",
    )
    max_bad_lines: int = job_field(
        100, "data", "Malformed lines or records that one process may skip.", at_least(0), page="data#malformed-records"
    )

    scale_learning_rate: str = job_field(
        NONE,
        "data",
        "Scaling of the learning rate with a batch_size of two bounds: linear in the examples of an update, or with "
        "their square root (sqrt).",
        one_of((NONE, "linear", "sqrt")),
        page="speed#learning-rate-and-batch-size-with-more-workers",
        shared=True,
    )

    max_steps: int = job_field(
        2000,
        "training",
        "The job ends at exactly this global step.",
        at_least(1),
        page="start#stop-and-resume",
        shared=True,
        common=True,
    )
    accumulate: int = job_field(
        1,
        "training",
        "Batches for each push, which sends their mean gradient.",
        at_least(1, _MOST_BATCHES),
        page="speed#gradients",
        shared=True,
    )
    steps_per_run: str = job_field(
        AUTO,
        "training",
        "Steps in one session.run.  auto: as many as let the loop react five times a second.",
        integer_or(AUTO),
        page="speed#steps-per-call",
    )
    prefetch_pulls: int = job_field(
        0,
        "training",
        "steps to pull ahead; hides the network's delay and adds staleness.",
        one_of((0, 1)),
        page="speed#steps-per-call",
        shared=True,
    )
    compute_dtype: str = job_field(
        "float32",
        "training",
        "Dtype of the computation on workers; variables and updates stay float32.  float16 scales the loss.",
        one_of(_COMPUTE_DTYPES),
        page="speed#16-bit-computation",
        shared=True,
    )
    seed: int = job_field(
        1,
        "training",
        "Seed of initial values, shuffling and dropout.",
        at_least(0),
        page="troubleshoot#results-differ",
        shared=True,
    )

    update: str = job_field(
        "async",
        "updates",
        "Update mode: when a gradient becomes a new value.",
        one_of(_UPDATES),
        page="concepts#update-modes",
        shared=True,
        common=True,
    )
    backup_workers: int | str = job_field(
        0,
        "updates",
        "number of the slowest workers that an update does not wait for; auto: up to a tenth of them, while the others "
        "wait.",
        backup_workers,
        page="concepts#sync",
        shared=True,
    )
    max_steps_ahead: int | str = job_field(
        1,
        "updates",
        "steps that a worker may be ahead of the slowest live worker.  0..8: between 0 and 8, following the "
        "stragglers.",
        max_steps_ahead,
        page="concepts#bounded",
        shared=True,
    )
    max_staleness: int | None = job_field(
        None,
        "updates",
        "drop gradients with a larger staleness.",
        optional(at_least(0)),
        page="concepts#staleness",
        shared=True,
    )
    divide_lr_by_staleness: bool = job_field(
        False,
        "updates",
        "divide the learning rate of an update by its staleness.",
        page="concepts#staleness",
        shared=True,
    )

    table_update: str | None = job_field(
        None,
        "updates",
        "How rows of tables are updated: with the round, or (async) as each worker brings them. [sync]",
        optional(one_of(("sync", "async"))),
        page="tables#rows-that-wait-for-nobody",
        shared=True,
    )

    local_steps: int | str = job_field(
        1,
        "updates",
        "Steps that a worker makes on its own values before it exchanges them with the ps; auto: as many as keep the "
        "exchange a small part of the time.",
        local_steps,
        page="local#rounds",
        shared=True,
    )
    outer_optimizer: str | None = job_field(
        None,
        "updates",
        "How the ps apply what a worker has changed in its local steps. [sgd, with local_steps]",
        optional(one_of(OUTER_OPTIMIZERS)),
        page="local#outer-optimizers",
        shared=True,
    )
    outer_optimizer_arg: tuple[str, ...] = job_field(
        (),
        "updates",
        "name=value for the outer optimizer, as momentum=0.8; several with commas, or by repeating the flag.",
        page="local#outer-optimizers",
        shared=True,
        repeated=True,
        listed=True,
    )
    round_secs: float = job_field(
        0.0,
        "updates",
        "Seconds after which a worker ends its round, even with fewer than local_steps; 0 for none.",
        at_least(0),
        page="local#slow-workers",
        shared=True,
    )
    local_tables: bool = job_field(
        True,
        "updates",
        "Train the rows of tables in local steps, too; without it they travel in every step.",
        page="local#tables",
        shared=True,
    )
    inner_state: str = job_field(
        "keep",
        "updates",
        "What becomes of a worker's own slots, such as Adam's, at an exchange.",
        one_of(("keep", "fresh")),
        page="local#a-workers-own-optimizer",
        shared=True,
    )

    l2: float = job_field(
        0.0, "gradients", "Strength of the L2 term in the gradients.", at_least(0), page="speed#gradients", shared=True
    )
    clip_value: float | None = job_field(
        None, "gradients", "Clip every element to -x..x.", optional(above(0)), page="speed#gradients", shared=True
    )
    clip_norm: float | None = job_field(
        None,
        "gradients",
        "Clip each variable's gradient to this norm.",
        optional(above(0)),
        page="speed#gradients",
        shared=True,
    )
    clip_global_norm: float | None = job_field(
        None,
        "gradients",
        "Clip all gradients together to this norm.",
        optional(above(0)),
        page="speed#gradients",
        shared=True,
    )
    on_nan: str = job_field(
        "stop",
        "gradients",
        "If a loss or gradient is not finite: stop the whole job, or skip that gradient and count it.",
        one_of(_ON_NAN),
        page="troubleshoot#the-loss-explodes",
        shared=True,
    )

    keras_tables: str = job_field(
        "rows",
        "gradients",
        "Large embeddings of Keras models.  rows: the rows that a batch reads travel, and are updated.  dense: all "
        "rows, as in Keras.",
        one_of(("rows", "dense")),
        page="keras#tables",
        shared=True,
    )
    pull_codec: str = job_field(
        NONE,
        "transport",
        "Encoding of values on their way to a worker; the ps keeps float32.",
        one_of((NONE, *CASTS, INT8)),
        page="speed#compression",
        shared=True,
    )
    push_codec: str = job_field(
        NONE,
        "transport",
        "Encoding of gradients on their way to a ps: bfloat16, float16, int8, or top_k:0.01 for the largest hundredth "
        "of the values; auto: none, bfloat16 or int8, following the network.  The next gradient adds what a push "
        "leaves out.",
        push_codec,
        page="speed#compression",
        shared=True,
    )

    @property
    def min_batch_size(self) -> int:
        """Returns the examples in the smallest batch, which is the first one."""
        return self.batch_sizes.lower

    @property
    def max_batch_size(self) -> int:
        """Returns the number of examples that no batch exceeds."""
        return self.batch_sizes.upper

    @property
    def batch_sizes(self) -> Bounds:
        """Returns the bounds of batch_size."""
        return parse_batch_size(self.batch_size)

    @property
    def steps_ahead_limits(self) -> Bounds:
        """Returns the bounds of max_steps_ahead."""
        return parse_steps_ahead(self.max_steps_ahead)

    def backup_limits(self, workers: int) -> Bounds:
        """Returns the bounds of backup_workers in a job of so many workers."""
        return parse_backups(self.backup_workers, workers)

    def wait_limits(self, workers: int) -> Bounds:
        """Returns the bounds of what the update mode goes on without: workers or steps."""
        limits = {"sync": self.backup_limits(workers), "bounded": self.steps_ahead_limits}
        return limits.get(self.update, Bounds(0, 0))

    @property
    def push_codecs(self) -> tuple[str, ...]:
        """Returns the codecs that a push may have, the first one first; several follow the network."""
        return possible_codecs(self.push_codec)

    @property
    def has_local_steps(self) -> bool:
        """Returns True if workers train values of their own, which an outer optimizer puts together."""
        return self.local_step_limits.upper > 1 or self.outer_optimizer is not None

    @property
    def rows_are_async(self) -> bool:
        """Returns True if rows of tables are updated as each worker brings them, while dense values move in rounds."""
        return self.update == "sync" and self.table_update == "async"

    @property
    def rows_are_mean(self) -> bool:
        """Returns True if an update has the mean over workers of the rows of tables, as `sync` has."""
        return self.update == "sync" and not self.rows_are_async

    @property
    def local_step_limits(self) -> Bounds:
        """Returns the bounds of local_steps."""
        return parse_local_steps(self.local_steps)

    @property
    def is_elastic_average(self) -> bool:
        """Returns True if workers keep their own values, and both sides move towards each other."""
        return self.outer_optimizer == "elastic"

    @property
    def is_dynamic(self) -> bool:
        """Returns True if shards of the data are assigned dynamically."""
        return self.sharding == _DYNAMIC

    @property
    def is_mixed(self) -> bool:
        """Returns True if the workers compute in another dtype than float32."""
        return self.compute_dtype != "float32"

    @property
    def scales_loss(self) -> bool:
        """Returns True if the loss is scaled, as float16 needs it."""
        return self.compute_dtype == _FLOAT16

    @property
    def may_skip(self) -> bool:
        """Returns True if a gradient may be left out because it is not finite."""
        return self.on_nan == "skip" or self.scales_loss
