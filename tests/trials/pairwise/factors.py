"""The pairwise design: rows of flags in which every possible pair of two factors' levels occurs.

    rows = design(seed=1)
    print(rows[0].text())

Most faults of combinations need two flags only, so some hundred jobs find what all 10^12 combinations would.  Of these
some eighty have no local steps, and every possible pair of all other levels: with local steps the optimizer runs
elsewhere.  The others have local steps, and every possible pair with a level of theirs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import random
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.refusals import refuse

FACTORS: Mapping[str, tuple[Any, ...]] = {
    "update": ("async", "bounded", "sync"),
    "num_ps": (1, 2, 3),
    "num_workers": (1, 2, 3),
    "event": ("none", "resume", "rescale", "kill_job", "kill_ps", "kill_worker"),
    "ending": ("max_steps", "epochs", "early_stop"),
    "sharding": ("static", "dynamic"),
    "data": ("even", "uneven"),
    "batch_size": ("4", "4..8"),
    "accumulate": (1, 2, 3),
    "towers": (1, 2),
    "steps_per_run": ("1", "3", "auto"),
    "prefetch_pulls": (0, 1),
    "codecs": (
        ("none", "none"), ("bfloat16", "bfloat16"), ("float16", "none"),
        ("int8", "int8"), ("none", "top_k:1.0"), ("none", "float16"), ("none", "auto"),
    ),
    "compute_dtype": ("float32", "bfloat16", "float16"),
    "on_nan": ("stop", "skip"),
    "l2": (0.0, 0.01),
    "clip": ("none", "norm", "global_norm", "value_and_norm"),
    "optimizer": ("sgd", "momentum", "adam", "adagrad", "ftrl", "rmsprop", "lazy_adam", "rowwise_adagrad"),
    "table": ("none", "rows", "open", "admit", "expire"),
    "max_snapshot_mib": (256, 0),
    "layout": ("apart", "on_workers", "racks"),
    "waits": ("fixed", "following"),
    "local_steps": (1, 3, 8),
    "outer_optimizer": ("none", "sgd", "nesterov", "elastic"),
    "inner_state": ("keep", "fresh"),
    "local_tables": (True, False),
    "table_update": ("none", "async"),
}  # fmt: skip
"""Names of flags, or of what a row decides, and their levels.

Attributes:
  event: what happens in the middle of the run: a second job goes on (`rescale`: with another number of ps), or all
    processes, a ps or a worker get SIGKILL.
  ending: what ends the job.
  data: whether the examples of an epoch fill the last batch.
  layout: where the ps are: processes of their own, or the workers; `racks`: apart, and workers add up in two racks.
  waits: whether max_steps_ahead, or backup_workers under `sync`, follows measurements.  No job takes long enough for
    another value than the first one, so the numbers are those of fixed ones.
  outer_optimizer, table_update: `none`: the flag is left out; with one local step the job has no outer optimizer, then.
"""

LOCAL = ("local_steps", "outer_optimizer", "inner_state", "local_tables")
"""The factors of local steps.  A job without them has the first level of each."""

CLIPS: Mapping[str, Mapping[str, float]] = {
    "none": {},
    "norm": {"clip_norm": 0.15},
    "global_norm": {"clip_global_norm": 0.4},
    "value_and_norm": {"clip_value": 0.1, "clip_norm": 0.15},
}

BATCH = 4
BATCHES = 4
"""Batches in an epoch, of each worker, of `accumulate` batches each."""
EPOCHS = 4
STEPS = 14
"""max_steps, where that ends the job."""
SAVE_STEPS = 5
RESUME_STEP = 6
HOLD_STEP = 8
"""From this step on the run is held, and struck."""
EXPIRE_STEPS = 2
ADMIT_AFTER = 2


@dataclasses.dataclass(frozen=True)
class Row:
    """One combination; see FACTORS."""

    update: str = "async"
    num_ps: int = 1
    num_workers: int = 1
    event: str = "none"
    ending: str = "max_steps"
    sharding: str = "static"
    data: str = "even"
    batch_size: str = "4"
    accumulate: int = 1
    towers: int = 1
    steps_per_run: str = "1"
    prefetch_pulls: int = 0
    codecs: tuple[str, str] = ("none", "none")
    compute_dtype: str = "float32"
    on_nan: str = "stop"
    l2: float = 0.0
    clip: str = "none"
    optimizer: str = "sgd"
    table: str = "none"
    max_snapshot_mib: int = 256
    layout: str = "apart"
    waits: str = "fixed"
    local_steps: int = 1
    outer_optimizer: str = "none"
    inner_state: str = "keep"
    local_tables: bool = True
    table_update: str = "none"

    @property
    def has_local_steps(self) -> bool:
        """True if workers train values of their own."""
        return self.local_steps > 1 or self.outer_optimizer != "none"

    @property
    def is_stale(self) -> bool:
        """True if a gradient may be of older values, by a number of updates that is not known."""
        return bool(self.prefetch_pulls) or (self.update != "sync" and self.num_workers > 1)

    @property
    def has_local_rows(self) -> bool:
        """True if workers train rows of a table of their own."""
        return self.has_local_steps and self.table != "none" and self.local_tables

    @property
    def has_lone_rows(self) -> bool:
        """True if rows of a table are updated when a worker brings them, while dense values move in rounds."""
        return self.table != "none" and (self.table_update == "async" or not self.local_tables)

    @property
    def is_linear(self) -> bool:
        """True if a gradient may not depend on the values, because it is not known of which values it is."""
        return self.is_stale or (self.has_lone_rows and self.num_workers > 1)

    @property
    def has_equal_examples(self) -> bool:
        """True if all examples are equal, because it is not known which of them a step uses."""
        return (
            self.is_linear
            or self.batch_size != "4"
            or (self.num_workers > 1 and (self.sharding == "dynamic" or self.event == "kill_worker"))
            or (self.num_workers > 1 and self.ending == "early_stop")  # the others learn it some steps after the chief
            or (self.event == "kill_ps" and self.sharding == "static")
        )

    @property
    def examples(self) -> int:
        """The number of training examples."""
        return BATCH * BATCHES * self.accumulate * self.num_workers - (self.data == "uneven")

    @property
    def nan_example(self) -> int | None:
        """The index of the example whose label is not a number; None if there is none."""
        return 5 if self.on_nan == "skip" and not self.has_equal_examples else None

    @property
    def is_exact(self) -> bool:
        """True if all numbers are of 32 bits."""
        return self.compute_dtype == "float32" and {*self.codecs} <= {"none", "top_k:1.0"}

    @property
    def accumulator(self) -> float | None:
        """The start of Adagrad's accumulators; None for other optimizers.

        With its small default the first step depends on the sign of a gradient alone, which 16 bits may not know.
        """
        if not self.optimizer.endswith("adagrad"):
            return None
        return 1e-6 if self.is_exact else 0.1

    @property
    def epsilon(self) -> float | None:
        """Adam's epsilon; None for other optimizers.

        With its small default the first steps of new slots depend on the sign of a gradient, as those of Adagrad do.
        Where workers do not wait for each other, it keeps the default: there the model is linear, so signs are certain,
        but not where a round ends; with a larger epsilon the first steps after that would be shorter.
        """
        if self.optimizer not in ("adam", "lazy_adam"):
            return None
        return 1e-8 if self.is_exact or self.is_stale else 0.01

    @property
    def ps_after_event(self) -> int:
        """The number of ps of the last job."""
        return self.num_ps % 3 + 1 if self.event == "rescale" else self.num_ps

    @property
    def processes(self) -> int:
        """The number of processes that the row starts."""
        jobs = 2 if self.event in ("resume", "rescale", "kill_job") else 1
        own = (self.num_workers + (self.num_ps if self.layout != "on_workers" else 0)) * jobs
        return own + self.event.startswith("kill") + (self.ending == "early_stop")

    def flags(self) -> list[str]:
        """Returns the flags that all jobs of the row have."""
        arguments = {
            "examples": self.examples, "equal": self.has_equal_examples, "table": self.table,
            "linear": self.is_linear, "nan": -1 if self.nan_example is None else self.nan_example,
        }  # fmt: skip
        flags = [f"--{name}={value}" for name, value in self.values().items()]
        return flags + [f"--model_arg={name}={value}" for name, value in arguments.items()]

    def values(self) -> dict[str, Any]:
        """Returns the values of these flags, without the arguments of the model."""
        values: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "update", "sharding", "batch_size", "accumulate", "towers", "steps_per_run", "prefetch_pulls",
                "compute_dtype", "on_nan", "l2", "optimizer", "max_snapshot_mib",
            )
        }  # fmt: skip
        values |= {"pull_codec": self.codecs[0], "push_codec": self.codecs[1], **CLIPS[self.clip]}
        values |= {"learning_rate": RATE, "shuffle_buffer": 0, "seed": 5, "save_steps": SAVE_STEPS}
        for name, value in {"initial_accumulator_value": self.accumulator, "epsilon": self.epsilon}.items():
            values |= {} if value is None or self.is_exact else {"optimizer_arg": f"{name}={value}"}
        values |= {"epochs": EPOCHS} if self.ending == "epochs" else {}
        values |= {"shard_examples": 2 * BATCH} if self.sharding == "dynamic" else {}
        values |= {"ps_recovery": "consistent"} if self.event == "kill_ps" else {}
        values |= {"ps_on_workers": True} if self.layout == "on_workers" else {}
        values |= {"local_steps": self.local_steps} if self.local_steps > 1 else {}
        values |= {"outer_optimizer": self.outer_optimizer} if self.outer_optimizer != "none" else {}
        values |= {"inner_state": self.inner_state} if self.inner_state != "keep" else {}
        values |= {} if self.local_tables else {"local_tables": False}
        values |= {"table_update": self.table_update} if self.table_update != "none" else {}
        if self.waits == "following":
            values |= {"max_steps_ahead": "1..8"} if self.update == "bounded" else {"backup_workers": "auto"}
        return values

    def text(self) -> str:
        """Returns the factors that are not at their default."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default}
        shown = {name: "/".join(value) if isinstance(value, tuple) else value for name, value in found.items()}
        return " ".join(f"{name}={value}" for name, value in shown.items())


RATE = 0.05


def _needs_quiet(event: str, ending: str) -> bool:
    """Returns whether the run is held at a step, while no other worker may go on."""
    return event.startswith("kill") or ending == "early_stop"


RULES: tuple[Callable[..., bool], ...] = (
    # What ps_train refuses.
    lambda prefetch_pulls, update: not prefetch_pulls or update == "async",
    lambda prefetch_pulls, steps_per_run: not prefetch_pulls or steps_per_run != "1",
    lambda accumulate, sharding: accumulate == 1 or sharding == "static",
    lambda accumulate, table: accumulate == 1 or table == "none",
    lambda optimizer, table: optimizer != "adam" or table == "none",
    lambda waits, update: waits == "fixed" or update != "async",
    lambda waits, layout: waits == "fixed" or layout != "racks",
    lambda waits, update, num_workers: (waits, update) != ("following", "sync") or num_workers > 1,
    lambda layout, update: layout != "racks" or update == "sync",
    lambda layout, sharding: layout != "racks" or sharding == "static",
    lambda layout, table: layout != "racks" or table == "none",
    lambda layout, batch_size: layout != "racks" or batch_size == "4",
    lambda layout, steps_per_run: layout != "racks" or steps_per_run == "1",
    lambda layout, codecs: layout != "racks" or codecs == ("none", "none"),
    lambda layout, compute_dtype: layout != "racks" or compute_dtype == "float32",
    # A worker is a ps, so none of them is lost alone, and there are as many.
    lambda layout, num_ps, num_workers: layout != "on_workers" or num_ps == num_workers,
    lambda layout, event: layout != "on_workers" or event not in ("rescale", "kill_ps", "kill_worker"),
    # It is not known how many gradients a rack has given up.
    lambda layout, event: layout != "racks" or event not in ("kill_ps", "kill_worker"),
    # Flags of rows need some.
    lambda local_tables, table: local_tables or table != "none",
    lambda table_update, table: table_update == "none" or table != "none",
    lambda table_update, update: table_update == "none" or update == "sync",
    lambda local_tables, codecs: local_tables or codecs[1] == "none",
    # What several workers have changed in the slots of rows must be sums.
    lambda local_steps, outer_optimizer, table, local_tables, optimizer: (
        optimizer in ("sgd", "adagrad", "rowwise_adagrad", "ftrl")
        or not _row(locals()).has_local_rows
    ),
    # A gradient of unknown values must not depend on them, and an id that it uses is in the vocabulary or not.
    lambda prefetch_pulls, update, num_workers, l2, table, local_tables, table_update: (
        l2 == 0 or not _row(locals()).is_linear
    ),
    lambda prefetch_pulls, update, num_workers, table, local_tables, table_update: (
        table != "admit" or not _row(locals()).is_linear
    ),
    # Ids come and go only with different examples.
    lambda table, prefetch_pulls, update, num_workers, batch_size, sharding, event, ending, local_tables,
        table_update: (
        table != "expire" or not _row(locals()).has_equal_examples
    ),
    # Rows that move alone show what a worker has begun, whatever becomes of it.
    lambda table, local_tables, table_update, num_workers, event, ending, sharding, update: (
        num_workers == 1 or not _row(locals()).has_lone_rows
        or (event in ("none", "resume", "rescale") and ending != "early_stop" and sharding == "static"
            and update == "sync")
    ),
    # Rows of rounds that come one after the other move by other differences, but for gradient descent.
    lambda local_steps, outer_optimizer, table, local_tables, table_update, optimizer, num_workers, update: (
        num_workers == 1 or optimizer == "sgd" or not _row(locals()).has_local_rows
        or (update == "sync" and table_update == "none")
    ),
    # The step at which the input ends must be known.
    lambda ending, batch_size: ending != "epochs" or batch_size == "4",
    lambda ending, num_workers, sharding: ending != "epochs" or num_workers == 1 or sharding == "static",
    lambda ending, event, sharding: (ending, event, sharding) != ("epochs", "kill_ps", "static"),
    lambda ending, event, num_workers: (ending, event) != ("epochs", "kill_worker") or num_workers == 1,
    lambda event, ending, update, num_workers: (
        not _needs_quiet(event, ending) or update == "sync" or num_workers == 1
    ),
    lambda ending, event: ending != "early_stop" or event not in ("kill_ps", "kill_worker"),
    # It is not known in which order the rounds of several workers come, nor how many each of them makes.
    lambda update, num_workers, local_steps, outer_optimizer: (
        update == "sync" or num_workers == 1 or outer_optimizer in ("none", "sgd")
        or (outer_optimizer == "nesterov" and local_steps == 1)
    ),
    lambda update, num_workers, local_steps, outer_optimizer, inner_state, optimizer: (
        update == "sync" or num_workers == 1 or not _is_local(local_steps, outer_optimizer)
        or optimizer in ("sgd", "adam", "lazy_adam")  # by equal gradients they make equal steps
        or (local_steps == 1 and inner_state == "fresh" and optimizer != "ftrl")
    ),
    # It is not known how many batches of the others' shards each of them gets.
    lambda update, num_workers, sharding, local_steps: (
        local_steps == 1 or num_workers == 1 or update != "sync" or sharding == "static"
    ),
    # A worker that is new among others has other slots, and other values, than they.
    lambda event, num_workers, local_steps, outer_optimizer, inner_state, optimizer: (
        event != "kill_worker" or num_workers == 1 or not _is_local(local_steps, outer_optimizer)
        or (outer_optimizer != "elastic" and (optimizer == "sgd" or inner_state == "fresh"))
    ),
)  # fmt: skip
"""What a legal row has.  Each rule's parameters are the factors that it is about."""


def _row(levels: dict[str, Any]) -> Row:
    return Row(**levels)


def _is_local(local_steps: int, outer_optimizer: str) -> bool:
    return Row(local_steps=local_steps, outer_optimizer=outer_optimizer).has_local_steps


def is_refused(row: Row) -> bool:
    """Returns whether ps_train refuses a row, by its table of refusals."""
    values = row.values() | {"towers": str(row.towers)} | ({"rack": "a"} if row.layout == "racks" else {})
    arguments = (values.pop("optimizer_arg"),) if "optimizer_arg" in values else ()
    try:
        job = Job(**values, optimizer_arg=arguments, sources=dict.fromkeys(values, ""))
        if row.table != "none":
            refuse(job, tables=["emb"])
    except ConfigError:
        return True
    return False


@functools.cache
def _may_be_with(local: tuple[Any, ...], factor: str, level: Any) -> bool:
    """Returns whether the table has no objection to levels of LOCAL with another level, whatever the mode."""
    own = dict(zip(LOCAL, local, strict=True))
    modes = itertools.product(FACTORS["update"], FACTORS["steps_per_run"])
    rows = (Row(**{"update": update, "steps_per_run": steps, **own, factor: level}) for update, steps in modes)
    return not all(is_refused(row) for row in rows)


def _table_allows(factor: str) -> Callable[..., bool]:
    def rule(**levels: Any) -> bool:
        return _may_be_with(tuple(levels[name] for name in LOCAL), factor, levels[factor])

    return rule


_NAMES: Mapping[Callable[..., bool], tuple[str, ...]] = {
    **{rule: tuple(inspect.signature(rule).parameters) for rule in RULES},
    **{_table_allows(factor): (*LOCAL, factor) for factor in FACTORS if factor not in LOCAL},
}
_RULES_OF = {factor: [rule for rule, names in _NAMES.items() if factor in names] for factor in FACTORS}
_MODE = ("update", "num_workers")
_NONE: Mapping[str, int] = {}
Level = tuple[str, int]
"""A factor and the number of one of its levels."""
Levels = tuple[Level, ...]
"""Levels that are to occur together in a row."""


def is_legal(row: Row) -> bool:
    """Returns whether a row can be run, and its numbers are known."""
    known = all(rule(**{name: getattr(row, name) for name in names}) for rule, names in _NAMES.items())
    return known and not is_refused(row)


def design(seed: int, tries: int = 100) -> list[Row]:
    """Returns rows in which every pair of levels occurs that occurs in any legal row; the more tries, the fewer."""
    chance = random.Random(f"pairwise {seed}")
    plain = dict.fromkeys(LOCAL, 0)
    others = _others(plain)
    rows = _covering([pair for pair in all_pairs() if {name for name, _ in pair} <= others], chance, plain, tries)
    local = [pair for pair in all_pairs() if {name for name, _ in pair} - others]
    return rows + _covering([*local, *all_modes()], chance, {}, tries)


def _others(chosen: Container[str]) -> set[str]:
    return {name for name in FACTORS if name not in chosen}


def _covering(wanted: list[Levels], chance: random.Random, chosen: Mapping[str, int], tries: int) -> list[Row]:
    """Returns rows in which all of these levels occur together that do so in any legal row.

    Args:
      wanted: the levels; where `chosen` is empty, a row has local steps, whatever its levels of LOCAL are.
      chance: decides.
      chosen: levels of all rows.
      tries: the number of rows of which the best is taken.
    """
    chance.shuffle(wanted)
    missing, rows = dict.fromkeys(wanted), list[Row]()
    for levels in wanted:
        if levels not in missing:
            continue
        found = [*itertools.takewhile(bool, (row_with(levels, chance, chosen) for _ in range(tries)))]
        found = [row for row in found if chosen or row.has_local_steps]
        found.sort(key=lambda row: -_worth(row, missing))
        best = next((row for row in found if not is_refused(row)), None)
        if best is None:  # no legal row has it
            del missing[levels]
            continue
        rows.append(best)
        for covered in _levels_of(best):
            missing.pop(covered, None)
    return rows


def _worth(row: Row, missing: Container[Levels]) -> float:
    """Returns how many missing levels a row covers, for its cost; rows with different examples are preferred."""
    covered = sum(levels in missing for levels in _levels_of(row))
    return covered * (1.0 if row.has_equal_examples else 1.6) / row.processes**0.3


def all_pairs() -> Iterator[Levels]:
    """Yields every pair of levels of two factors, whether it is legal or not."""
    for one, other in itertools.combinations(FACTORS, 2):
        for pair in itertools.product(range(len(FACTORS[one])), range(len(FACTORS[other]))):
            yield (one, pair[0]), (other, pair[1])


def all_modes() -> Iterator[Levels]:
    """Yields every level of local steps in every mode, with any number of workers: they decide what a round is."""
    for local in LOCAL:
        for levels in itertools.product(*(range(len(FACTORS[name])) for name in (*_MODE, local))):
            yield tuple(zip((*_MODE, local), levels, strict=True))


def pairs_of(row: Row) -> Iterable[Levels]:
    """Returns the pairs of levels in a row."""
    return itertools.combinations([(name, FACTORS[name].index(getattr(row, name))) for name in FACTORS], 2)


def _levels_of(row: Row) -> Iterator[Levels]:
    """Yields the pairs of levels in a row, and its modes of local steps."""
    yield from pairs_of(row)
    for local in LOCAL:
        yield tuple((name, FACTORS[name].index(getattr(row, name))) for name in (*_MODE, local))


def row_with(levels: Iterable[Level], chance: random.Random, others: Mapping[str, int] = _NONE) -> Row | None:
    """Returns a row with these levels and others that keeps the rules, chosen at random; None if there is none."""
    chosen = {**others, **dict(levels)}
    left = [name for name in FACTORS if name not in chosen]
    chance.shuffle(left)
    left.sort(key=lambda name: -len(_RULES_OF[name]))  # the most bound ones first
    return _complete(chosen, left, chance) if all(_keeps_rules(chosen, name) for name in chosen) else None


def _complete(chosen: dict[str, int], left: list[str], chance: random.Random) -> Row | None:
    """Chooses the factors that are left one after the other, and goes back where a rule is broken."""
    if not left:
        return Row(**{name: FACTORS[name][level] for name, level in chosen.items()})
    name, *others = left
    levels = list(range(len(FACTORS[name])))
    chance.shuffle(levels)
    for level in levels:
        more = chosen | {name: level}
        if _keeps_rules(more, name) and (row := _complete(more, others, chance)) is not None:
            return row
    return None


def _keeps_rules(chosen: Mapping[str, int], changed: str) -> bool:
    """Returns whether no rule about the changed factor, all of whose factors are chosen, is broken."""
    for rule in _RULES_OF[changed]:
        levels = tuple(map(chosen.get, _NAMES[rule]))
        if None not in levels and not _holds(rule, levels):
            return False
    return True


@functools.cache
def _holds(rule: Callable[..., bool], levels: tuple[int, ...]) -> bool:
    names = _NAMES[rule]
    return rule(**{name: FACTORS[name][level] for name, level in zip(names, levels, strict=True)})
