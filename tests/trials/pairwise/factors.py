"""The pairwise design: rows of flags in which every possible pair of two factors' levels occurs.

    rows = design(seed=1)
    print(rows[0].text())

Most faults of combinations need two flags only, so some sixty jobs find what all 10^9 combinations would.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import random
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

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
"""

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

    @property
    def is_stale(self) -> bool:
        """True if a gradient may be of older values, by a number of updates that is not known."""
        return bool(self.prefetch_pulls) or (self.update != "sync" and self.num_workers > 1)

    @property
    def has_equal_examples(self) -> bool:
        """True if all examples are equal, because it is not known which of them a step uses."""
        return (
            self.is_stale
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
        values: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "update", "sharding", "batch_size", "accumulate", "towers", "steps_per_run", "prefetch_pulls",
                "compute_dtype", "on_nan", "l2", "optimizer", "max_snapshot_mib",
            )
        }  # fmt: skip
        values |= {"pull_codec": self.codecs[0], "push_codec": self.codecs[1], **CLIPS[self.clip]}
        values |= {"learning_rate": RATE, "shuffle_buffer": 0, "seed": 5, "save_steps": SAVE_STEPS}
        if self.accumulator is not None and not self.is_exact:
            values |= {"optimizer_arg": f"initial_accumulator_value={self.accumulator}"}
        values |= {"epochs": EPOCHS} if self.ending == "epochs" else {}
        values |= {"shard_examples": 2 * BATCH} if self.sharding == "dynamic" else {}
        values |= {"ps_recovery": "consistent"} if self.event == "kill_ps" else {}
        values |= {"ps_on_workers": True} if self.layout == "on_workers" else {}
        if self.waits == "following":
            values |= {"max_steps_ahead": "1..8"} if self.update == "bounded" else {"backup_workers": "auto"}
        arguments = {
            "examples": self.examples, "equal": self.has_equal_examples, "table": self.table,
            "linear": self.is_stale, "nan": -1 if self.nan_example is None else self.nan_example,
        }  # fmt: skip
        flags = [f"--{name}={value}" for name, value in values.items()]
        return flags + [f"--model_arg={name}={value}" for name, value in arguments.items()]

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
    # A stale gradient must not depend on the values, and an id that it uses is in the vocabulary or not.
    lambda prefetch_pulls, update, num_workers, l2: (
        l2 == 0 or not Row(prefetch_pulls=prefetch_pulls, update=update, num_workers=num_workers).is_stale
    ),
    lambda prefetch_pulls, update, num_workers, table: (
        table != "admit" or not Row(prefetch_pulls=prefetch_pulls, update=update, num_workers=num_workers).is_stale
    ),
    # Ids come and go only with different examples.
    lambda table, prefetch_pulls, update, num_workers, batch_size, sharding, event, ending: (
        table != "expire"
        or not Row(
            prefetch_pulls=prefetch_pulls, update=update, num_workers=num_workers, batch_size=batch_size,
            sharding=sharding, event=event, ending=ending,
        ).has_equal_examples
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
)  # fmt: skip
"""What a legal row has.  Each rule's parameters are the factors that it is about."""

_NAMES = {rule: tuple(inspect.signature(rule).parameters) for rule in RULES}
_RULES_OF = {factor: [rule for rule, names in _NAMES.items() if factor in names] for factor in FACTORS}
Level = tuple[str, int]
"""A factor and the number of one of its levels."""


def is_legal(row: Row) -> bool:
    """Returns whether a row can be run, and its numbers are known."""
    return all(rule(**{name: getattr(row, name) for name in names}) for rule, names in _NAMES.items())


def design(seed: int) -> list[Row]:
    """Returns rows in which every pair of levels occurs that occurs in any legal row."""
    chance = random.Random(f"pairwise {seed}")
    wanted = list(all_pairs())
    chance.shuffle(wanted)
    missing, rows = dict.fromkeys(wanted), []
    for pair in wanted:
        if pair not in missing:
            continue
        found = [row for _ in range(100) if (row := row_with(pair, chance)) is not None]
        if not found:  # no legal row has it
            del missing[pair]
            continue
        best = max(found, key=lambda row: _worth(row, missing))
        rows.append(best)
        for covered in pairs_of(best):
            missing.pop(covered, None)
    return rows


def _worth(row: Row, missing: Container[tuple[Level, Level]]) -> float:
    """Returns how many missing pairs a row covers, for its cost; rows with different examples are preferred."""
    covered = sum(pair in missing for pair in pairs_of(row))
    return covered * (1.0 if row.has_equal_examples else 1.6) / row.processes**0.3


def all_pairs() -> Iterator[tuple[Level, Level]]:
    """Yields every pair of levels of two factors, whether it is legal or not."""
    for one, other in itertools.combinations(FACTORS, 2):
        for pair in itertools.product(range(len(FACTORS[one])), range(len(FACTORS[other]))):
            yield (one, pair[0]), (other, pair[1])


def pairs_of(row: Row) -> Iterable[tuple[Level, Level]]:
    """Returns the pairs of levels in a row."""
    return itertools.combinations([(name, FACTORS[name].index(getattr(row, name))) for name in FACTORS], 2)


def row_with(pair: Iterable[Level], chance: random.Random) -> Row | None:
    """Returns a legal row with these levels, chosen at random; None if there is none."""
    chosen = dict(pair)
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
    return all(
        rule(**{name: FACTORS[name][chosen[name]] for name in _NAMES[rule]})
        for rule in _RULES_OF[changed]
        if chosen.keys() >= {*_NAMES[rule]}
    )
