"""A storm: a job whose processes are killed, frozen, moved and stopped at moments that a seed decides.

    storm = Storm.of(seed=7)
    print(storm.text())
    weather(storm, processes)         # weather.py; fails where the job did not end as it must

To end right is: at the step, with the updates and the uses of examples, that the mode promises (`verdict.py`); or,
where a task that is needed never comes back, with that for a cause; within the deadline; and no process is left.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.refusals import refuse

VERSION = 7
"""Of the generator: what a seed means.  Only storms of one version count together.

6 is 5 with local steps, which a seed adds to a storm that may have them; all else is what it was.  7 is 6 with flags of
rows, which a seed adds to a storm with tables.
"""

STEPS = {"async": 200, "bounded": 100, "sync": 100}
"""Steps of the job.  Under dynamic sharding its batches, and twice as many under sync, where a step takes several."""

BATCH, EPOCHS, SHARD = 16, 2, 64
NEVER = math.inf
LAYOUTS = ("apart", "ps on workers", "racks")
"""Places of the ps: processes of their own, or the workers' own; or apart, with workers that add up in racks."""
JOINERS = 2
"""Workers that may join an elastic job."""


class Kind(enum.Enum):
    """What happens to a task."""

    KILL = "is killed"
    STOP = "is frozen"
    STOP_KILL = "is frozen, then killed"
    REPLACE = "is frozen and replaced elsewhere"
    TERM = "stops the job"
    LEAVE = "leaves"
    JOIN = "joins"


@dataclasses.dataclass(frozen=True)
class Blow:
    """A task is struck, when the job has reached a global step.

    Attributes:
      after: seconds after that moment; so it may hit a job that is not over the previous blow.
      secs: after so many seconds the task is started again, or goes on; `NEVER`: it does not.
      elsewhere: whether it is started at another address.
      wakes: seconds after which a replaced task wakes.
    """

    step: int
    task: str
    kind: Kind
    after: float = 0.0
    secs: float = 0.0
    elsewhere: bool = False
    wakes: float = NEVER

    @property
    def strikes(self) -> bool:
        """Whether a push of the task may be torn apart."""
        return self.kind in (Kind.KILL, Kind.STOP, Kind.STOP_KILL, Kind.REPLACE)

    def text(self) -> str:
        told = f"{self.task} {self.kind.value} @{self.step}"
        told += f"+{self.after:.1f}s" if self.after else ""
        if self.strikes:
            told += f" for {self.secs:.1f}s" if self.secs != NEVER else " for good"
        told += ", back elsewhere" if self.elsewhere else ""
        return told + (f", wakes after {self.wakes:.1f}s" if self.wakes != NEVER else "")


@dataclasses.dataclass(frozen=True)
class Storm:
    """A job and what happens to it.

    Attributes:
      elastic: whether workers join and leave.
      moves: whether addresses are in a cluster file, which changes.
      dynamic: whether the data are sharded dynamically.
      tables: whether the model has tables.
      options: further flags.
      layout: one of LAYOUTS.
      racks: the rack of each worker; () without racks.
      rack_file: whether a file names the racks, and no flag of each worker.
    """

    seed: int
    update: str
    num_ps: int
    num_workers: int
    elastic: bool
    moves: bool
    dynamic: bool
    tables: bool
    options: dict[str, str]
    layout: str
    racks: tuple[str, ...]
    rack_file: bool
    blows: tuple[Blow, ...]

    @classmethod
    def of(cls, seed: int) -> Storm:
        chance = random.Random(f"storm 5 {seed}")
        update, num_ps, num_workers = ("async", "sync", "bounded")[seed % 3], chance.randint(1, 2), chance.randint(2, 3)
        elastic, moves, dynamic, tables = (chance.random() < share for share in (0.35, 0.4, 0.35, 0.15))
        layout = chance.choices(LAYOUTS, [5, 2, 3 if update == "sync" else 0])[0]
        racks = layout == "racks"
        if layout != "apart":
            elastic = False
        if racks:
            dynamic = tables = False
        if layout == "ps on workers":  # `excess.py` knows two ps
            num_ps = num_workers = 2 if update == "async" else num_workers
        options = {"steps_per_run": "1"} if racks else _options(chance, update, dynamic, tables)
        rows = _row_options(random.Random(f"rows {seed}"), update) if tables else {}
        options |= _local_options(random.Random(f"local {seed}"), update, dynamic, tables, racks, options, rows)
        options |= {name: value for name, value in rows.items() if name == "table_update"}
        if "local_tables" in options:  # the rows of a local step are not encoded
            options.pop("push_codec", None)
        tasks = [f"ps:{i}" for i in range(num_ps) if layout != "ps on workers"]
        tasks += [f"worker:{i}" for i in range(num_workers)]
        pause = (STEPS[update] // 12, STEPS[update] // 4)
        is_for_good = chance.random() < 0.12
        blows = _for_good(chance, tasks, pause) if is_for_good else _Blows(chance, tasks, elastic, moves).all(pause)
        names = tuple(chance.choice("ab") for _ in range(num_workers)) if racks else ()
        return cls(
            seed, update, num_ps, num_workers, elastic, moves, dynamic, tables, options,
            layout, names, racks and chance.random() < 0.5, blows,
        )  # fmt: skip

    @property
    def ps_tasks(self) -> list[str]:
        """Returns the names of the ps that are processes of their own."""
        return [f"ps:{i}" for i in range(self.num_ps) if self.layout != "ps on workers"]

    @property
    def is_local(self) -> bool:
        """Returns whether workers make local steps."""
        return bool(self.options.keys() & {*_LOCAL})

    @property
    def averages(self) -> bool:
        """Returns whether the values are elastic averages, of which it is not known how far they have come."""
        return self.options.get("outer_optimizer") == "elastic"

    @property
    def round_steps(self) -> int:
        """Returns the most steps of a push."""
        return int(self.options.get("local_steps", 1))

    @property
    def row_rate(self) -> float:
        """Returns the part of a difference by which the rows of a table move."""
        is_own = self.options.get("outer_optimizer") == "nesterov" and "local_tables" not in self.options
        return 1 / self.num_workers if is_own and (self.update != "sync" or "table_update" in self.options) else 1.0

    @property
    def has_lone_rows(self) -> bool:
        """Returns whether rows are updated when a worker brings them, whatever becomes of its round."""
        return bool(self.options.keys() & {"table_update", "local_tables"})

    @property
    def outer_arguments(self) -> dict[str, float]:
        """Returns the arguments with which each difference moves the values by itself, or under sync by its mean."""
        if not self.is_local or self.averages:
            return {}
        if self.options.get("outer_optimizer") != "nesterov":
            return {"learning_rate": 1.0}
        # Where differences come one by one, each moves the values by its part.
        return {"learning_rate": 1.0 if self.update == "sync" else float(self.num_workers), "momentum": 0.0}

    @property
    def missing(self) -> tuple[str, ...]:
        """The tasks that never come back."""
        return tuple(blow.task for blow in self.blows if blow.strikes and blow.secs == NEVER)

    @property
    def causes(self) -> tuple[str, ...]:
        """The words of which the error must have one, where the job cannot go on: a ps or the chief (which may be
        started again, but is not) that never comes back.  No task waits for another worker."""
        found = tuple(task for task in self.missing if task.startswith("ps") or task == "worker:0")
        if self.layout == "ps on workers":  # each of them is a ps, too
            found = tuple(name for task in self.missing for name in (task, task.replace("worker", "ps")))
        no_worker_is_left = sum(task.startswith("worker") for task in self.missing) == self.num_workers
        return (*found, "all of them are gone") if no_worker_is_left else found

    @property
    def joiners(self) -> int:
        return sum(blow.kind == Kind.JOIN for blow in self.blows)

    @property
    def examples(self) -> int:
        """The number of different examples."""
        batches = STEPS[self.update] * (2 if self.update == "sync" else 1)
        return batches * BATCH // EPOCHS if self.dynamic else STEPS[self.update] * BATCH

    @property
    def steps(self) -> int | None:
        """The step at the end; None where it depends on which workers took part in which round."""
        return None if self.dynamic and self.update == "sync" else STEPS[self.update]

    def moments(self) -> Iterator[tuple[int, list[Blow]]]:
        """Yields each step with what happens at it."""
        for step, blows in itertools.groupby(self.blows, lambda blow: blow.step):
            yield step, list(blows)

    def dimensions(self) -> list[str]:
        """Returns the words for what this storm has, to count storms by them."""
        found = [self.update, f"{self.num_ps} ps", *([self.layout] if self.layout != "apart" else [])]
        found += [name for name in ("elastic", "dynamic", "tables") if getattr(self, name)]
        found += ["cluster_file"] if self.moves else []
        found += [name for name in self.options if name != "steps_per_run"]
        found += ["local"] if self.is_local else []
        found += ["local tables"] if self.is_local and self.tables else []
        outer = self.options.get("outer_optimizer")
        found += [f"outer_optimizer={outer}"] if outer else []
        found += ["push_codec=auto"] if self.options.get("push_codec") == "auto" else []
        found += ["several at once"] if any(len(blows) > 1 for _, blows in self.moments()) else []
        return found + sorted({blow.kind.value for blow in self.blows}) + (["for good"] if self.missing else [])

    def text(self) -> str:
        told = [self.update, f"{self.num_ps} ps", f"{self.num_workers} workers"]
        told += [self.layout] if self.layout != "apart" else []
        told += [f"of {'rack_file' if self.rack_file else 'rack'} {''.join(self.racks)}"] if self.racks else []
        told += [name for name in ("elastic", "moves", "dynamic", "tables") if getattr(self, name)]
        told += [f"{name}={value}" for name, value in self.options.items()]
        return f"seed {self.seed}: {', '.join(told)}: " + "; ".join(blow.text() for blow in self.blows)


def _options(chance: random.Random, update: str, dynamic: bool, tables: bool) -> dict[str, str]:
    # The graph of a step with an open vocabulary is large: eight of them take a busy machine a minute.
    options = {"steps_per_run": chance.choices(["auto", "1", "2"], [0 if tables else 2, 2, 1])[0]}
    if update == "async" and options["steps_per_run"] != "1" and chance.random() < 0.5:
        options["prefetch_pulls"] = "1"
    follows = chance.random() < 0.4
    if follows and update == "bounded":
        options["max_steps_ahead"] = "0..8"
    if follows and update == "sync" and not dynamic:  # the examples of late pushes count as used
        options["backup_workers"] = "auto"
    pull = chance.choices(["none", "bfloat16", "float16", "int8"], [4, 1, 1, 1])[0]
    # The uses of examples are counted exactly: what a worker that dies has left out would be missing.
    lossy = [] if dynamic else ["top_k:0.5"]
    push = chance.choices(
        ["none", "bfloat16", "float16", "int8", "auto", *lossy], [6, 1, 1, 1, 3, *[1 for _ in lossy]]
    )[0]
    # The model takes the sign of what arrives, also of a rest; auto ends at int8.
    if push in ("int8", "auto") and dynamic and update == "sync":
        push = "bfloat16"
    return options | {name: codec for name, codec in (("pull_codec", pull), ("push_codec", push)) if codec != "none"}


_LOCAL = {"local_steps": ("1", "3", "8"), "outer_optimizer": ("none", "sgd", "nesterov", "elastic")}
"""Flags of local steps and their values; those that are left out are the first ones."""


def _local_options(
    chance: random.Random,
    update: str,
    dynamic: bool,
    tables: bool,
    racks: bool,
    others: dict[str, str],
    rows: dict[str, str],
) -> dict[str, str]:
    """Returns the flags of local steps, and another push codec where the model needs it; {} without local steps."""
    drawn = {name: chance.choice(values) for name, values in _LOCAL.items()}
    options = {name: value for name, value in drawn.items() if value != _LOCAL[name][0]}
    # A mean over workers that have used other examples, or not as many, is no whole number.
    if not options or chance.random() < 0.4 or (update == "sync" and dynamic):
        return {}
    given: dict[str, Any] = {"update": update, "sharding": "dynamic" if dynamic else "static", **others, **options}
    try:
        job = Job(**given, rack="a" if racks else "", local_tables="local_tables" not in rows)
        if tables and "local_tables" not in rows:
            refuse(job, tables=["hot"])
    except ConfigError:
        return {}
    # A round has a use of an example beside several updates, which int8 does not have both; auto ends there.
    is_narrow = dynamic and others.get("push_codec") in ("int8", "auto")
    options |= {"push_codec": "bfloat16"} if is_narrow else {}
    return options | {name: value for name, value in rows.items() if name == "local_tables"}


def _row_options(chance: random.Random, update: str) -> dict[str, str]:
    """Returns the flags of rows; `local_tables` is for storms with local steps."""
    options = {"table_update": "async"} if update == "sync" and chance.random() < 0.5 else {}
    return options | ({"local_tables": "false"} if chance.random() < 0.4 else {})


def _for_good(chance: random.Random, tasks: list[str], pause: tuple[int, int]) -> tuple[Blow, ...]:
    """One or two tasks that do not come back."""
    step, struck = chance.randint(*pause), chance.sample(tasks, chance.choices([1, 2], [3, 1])[0])
    return tuple(Blow(step, task, chance.choice([Kind.KILL, Kind.STOP]), secs=NEVER) for task in struck)


class _Blows:
    """What a seed makes happen to a job that goes on."""

    def __init__(self, chance: random.Random, tasks: list[str], elastic: bool, moves: bool) -> None:
        self._chance, self._tasks, self._elastic, self._moves = chance, list(tasks), elastic, moves
        self._joiners = [f"worker:{sum(task.startswith('worker') for task in tasks) + i}" for i in range(JOINERS)]

    def all(self, pause: tuple[int, int]) -> tuple[Blow, ...]:
        """Returns one to three moments; `pause`: the fewest and the most steps before each."""
        found: list[Blow] = []
        step = 0
        for _ in range(self._chance.randint(1, 3)):
            step += self._chance.randint(*pause)
            found += self._stop(step) if self._chance.random() < 0.12 else self._moment(step)
        return tuple(found)

    def _stop(self, step: int) -> list[Blow]:
        """A signal stops the job; sometimes another task is killed in the same moment."""
        own = [task for task in self._tasks if not self._elastic or not self._may_leave(task)]
        stopped = self._chance.choice(own)
        others = [task for task in self._tasks if task not in (stopped, "worker:0")]
        killed = [Blow(step, self._chance.choice(others), Kind.KILL)] if others and self._chance.random() < 0.3 else []
        return [*killed, Blow(step, stopped, Kind.TERM)]

    def _moment(self, step: int) -> list[Blow]:
        chance = self._chance
        number = chance.choices([1, 2, 3], [13, 6, 1])[0]
        struck = chance.sample(self._tasks, min(number, len(self._tasks)))
        blows = [self._blow(step, task) for task in struck]
        if not self._elastic:
            return blows
        leaving = [task for task in self._tasks if self._may_leave(task) and task not in struck]
        if leaving and chance.random() < 0.3:
            task = chance.choice(leaving)
            self._tasks.remove(task)
            blows.append(Blow(step, task, Kind.LEAVE, self._later()))
        if self._joiners and chance.random() < 0.6:
            self._tasks.append(self._joiners.pop(0))
            blows.append(Blow(step, self._tasks[-1], Kind.JOIN))
        return blows

    def _blow(self, step: int, task: str) -> Blow:
        chance, is_ps = self._chance, task.startswith("ps")
        kinds = [Kind.KILL, Kind.STOP, Kind.STOP_KILL, Kind.REPLACE]
        kind = chance.choices(kinds, [5, 3, 2, 3 if is_ps and self._moves else 0])[0]
        may_move = self._moves and task != "worker:0" and kind in (Kind.KILL, Kind.STOP_KILL)
        elsewhere = kind == Kind.REPLACE or (may_move and chance.random() < 0.5)
        wakes = chance.uniform(0.0, 8.0) if kind == Kind.REPLACE and chance.random() < 0.4 else NEVER
        return Blow(step, task, kind, self._later(), chance.uniform(0.0, 6.0), elsewhere, wakes)

    def _later(self) -> float:
        return self._chance.uniform(0.5, 6.0) if self._chance.random() < 0.25 else 0.0

    @staticmethod
    def _may_leave(task: str) -> bool:
        return task.startswith("worker") and task != "worker:0"
