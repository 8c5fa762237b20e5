"""What a table is: its rows, their length, their initial values, and what becomes of ids that it does not have.

    Table("ads", rows=1_000_000, dimension=16)
    Table("fields", hash_buckets=[1000, 50, 200], dimension=8)      # three fields, each with rows of its own
    Table("users", capacity=1_000_000, dimension=16, admit_after=3) # rows are given to ids as they come

Pure: no TensorFlow, no ps.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

from ps_train.embeddings.row_groups import group_count, rows_per_group
from ps_train.errors import ModelError

OOV = ("error", "default", "hash")

MAX_ROWS = (1 << 31) - 1
"""Numbers of rows travel as int32."""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of float32 rows.

    Args:
      name: of its variable, as in `get_variable`; the same name in the same variable scope is the same table.
      dimension: numbers in a row.
      rows: how many ids there are: 0 .. rows - 1.  A list: one size for each field (column of ids), and every field
        has rows of its own.
      hash_buckets: instead of `rows`: ids are any int64 or strings, and are hashed into so many rows.
      initializer: of the rows: a number for all; one of TensorFlow's or Keras's initializers; None: uniform within
        +-0.05.  Zeros, ones, constants, uniform, normal and truncated normal do not depend on the number of ps.
      oov: what becomes of an id out of range: an "error"; the field's "default" row, one more than `rows`, which
        learns as others do; "hash": one of its rows.
      capacity: instead of `rows`: an open vocabulary.  Ids are any int64 or strings; this many can have rows at once.
      admit_after: of an open vocabulary: an id gets a row at the n-th update that uses it; before it has the default
        row, as every unknown id has.
      expire_steps: of an open vocabulary: an id that so many updates in succession have not used loses its row; None:
        only when its row is needed.
    """

    name: str
    dimension: int
    rows: int | Sequence[int] | None = None
    hash_buckets: int | Sequence[int] | None = None
    initializer: Any = dataclasses.field(default=None, compare=False)  # two equal ones need not be found to be equal
    oov: str = "error"
    capacity: int | None = None
    admit_after: int = 1
    expire_steps: int | None = None

    def __post_init__(self) -> None:
        sizes = {field: getattr(self, field) for field in ("rows", "hash_buckets", "capacity")}
        given = [f"{field}={size}" for field, size in sizes.items() if size is not None]
        if len(given) != 1:
            raise ModelError(
                f"table {self.name} has {' and '.join(given) or 'no rows, hash_buckets or capacity'}: give one."
            )
        self._check_vocabulary()
        for field in ("rows", "hash_buckets"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _sizes(self.name, field, getattr(self, field)))
        object.__setattr__(self, "dimension", _positive(self.name, "dimension", self.dimension))
        if self.oov not in OOV:
            raise ModelError(f"table {self.name} has oov={self.oov}: use one of {', '.join(OOV)}.")
        if self.oov != "error" and self.hash_buckets is not None:
            raise ModelError(
                f"table {self.name} has hash_buckets and oov={self.oov}: where ids are hashed none is out of range; "
                "leave oov out."
            )
        if self.total > MAX_ROWS:
            raise ModelError(f"table {self.name} has {self.total} rows: at most {MAX_ROWS} are possible.")

    def _check_vocabulary(self) -> None:
        for field in ("capacity", "admit_after", "expire_steps"):
            given = getattr(self, field)
            if given is not None:
                object.__setattr__(self, field, _positive(self.name, field, given))
        if self.capacity is None:
            for field, unless in (("admit_after", 1), ("expire_steps", None)):
                if getattr(self, field) != unless:
                    raise ModelError(
                        f"table {self.name} has {field}={getattr(self, field)} but no capacity: rows are only "
                        f"given and taken in an open vocabulary; declare it with capacity, or leave {field} out."
                    )
        elif self.oov != "error":
            raise ModelError(
                f"table {self.name} has capacity and oov={self.oov}: unknown ids get the default row; leave oov out."
            )

    @property
    def is_open(self) -> bool:
        """Whether ids are given rows as they come."""
        return self.capacity is not None

    @property
    def groups(self) -> int:
        """Of an open vocabulary; see `heaps.py`."""
        return group_count(self.capacity or 1)

    @property
    def rows_per_group(self) -> int:
        return rows_per_group(self.capacity or 1)

    @property
    def first_initializer(self) -> Any:
        """What all its rows begin with: those of an open vocabulary get their values with their ids."""
        return 0.0 if self.is_open else self.initializer

    @property
    def default(self) -> Table:
        """Of an open vocabulary: a table of the one row that unknown ids get."""
        return Table(f"{self.name}/default", self.dimension, rows=1, initializer=self.initializer)

    @property
    def hashed(self) -> bool:
        return self.hash_buckets is not None

    @property
    def by_field(self) -> bool:
        """Whether every column of ids has rows of its own."""
        return not self.is_open and not isinstance(self.rows if self.rows is not None else self.hash_buckets, int)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of each field, how many ids it has; one number where all ids are of one kind."""
        if self.is_open:
            return (self.groups * self.rows_per_group,)
        given: Any = self.rows if self.rows is not None else self.hash_buckets
        return (given,) if isinstance(given, int) else given

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of each field, its first row."""
        found, begin = [], 0
        for size in self.sizes:
            found.append(begin)
            begin += size + self._extra
        return tuple(found)

    @property
    def total(self) -> int:
        """Rows of the one variable that holds all fields."""
        return sum(self.sizes) + self._extra * len(self.sizes)

    @property
    def _extra(self) -> int:
        return 1 if self.oov == "default" else 0


def _sizes(name: str, field: str, given: Any) -> int | tuple[int, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        if not given:
            raise ModelError(f"table {name} has {field}={given}: give one size for each field.")
        return tuple(_positive(name, field, size) for size in given)
    return _positive(name, field, given)


def _positive(name: str, field: str, given: Any) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        number = 0
    if number < 1:
        raise ModelError(f"table {name} has {field}={given!r}: use a whole number of at least 1.")
    return number
