"""The declaration of an embedding table: rows, dimension, initial values, and the treatment of unknown ids.

    Table("ads", rows=1_000_000, dimension=16)
    Table("fields", hash_buckets=[1000, 50, 200], dimension=8)      # three fields, each with rows of its own
    Table("users", capacity=1_000_000, dimension=16, admit_after=3) # rows are assigned to ids on demand

The module is pure: no TensorFlow, no ps.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.row_order import group_count, rows_per_group

OOV = ("error", "default", "hash")

MAX_ROWS = (1 << 31) - 1
"""Row indices are sent as int32."""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of float32 rows.

    Args:
      name: name of its variable, as in `get_variable`; the same name in the same variable scope is the same table.
      dimension: numbers in a row.
      rows: number of ids, which are 0 .. rows - 1.  A list has one size for each field (column of ids), and every
        field has rows of its own.
      hash_buckets: instead of `rows`: number of rows into which ids are hashed; ids are any int64 or strings.
      initializer: initial values: a number, an initializer of TensorFlow or Keras, or None for uniform within +-0.05.
        Zeros, ones, constants, uniform, normal and truncated normal do not depend on the number of ps.  An array, a
        tensor, or a function of shape and dtype gives row i to id i, for `rows` only.
      oov: treatment of an id out of range: "error"; "default": the field's default row, which is one more than `rows`
        and is trained like others; "hash": one of the field's rows.
      capacity: instead of `rows`: number of ids that can have rows at once in an open vocabulary; ids are any int64 or
        strings.
      admit_after: for an open vocabulary: an id gets a row at the n-th update that uses it.  Until then it has the
        default row, like every unknown id.
      expire_steps: for an open vocabulary: an id loses its row after this many successive updates without a use; None:
        only when another id needs the row.

    Raises:
      ModelError: the declaration is not valid.
    """

    allows_dense_updates: ClassVar[bool] = False
    """True if the optimizer may touch all rows in every update."""

    has_natural_order: ClassVar[bool] = False
    """True if row i of the variable is that of index i; else `row_order.py` tells the order."""

    name: str
    dimension: int
    rows: int | Sequence[int] | None = None
    hash_buckets: int | Sequence[int] | None = None
    initializer: Any = dataclasses.field(default=None, compare=False)  # equal initializers may compare unequal
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
                f"table {self.name} has hash_buckets and oov={self.oov}: hashed ids are never out of range; "
                "leave oov out."
            )
        if self.total > MAX_ROWS:
            raise ModelError(f"table {self.name} has {self.total} rows: use at most {MAX_ROWS}.")

    def _check_vocabulary(self) -> None:
        for field in ("capacity", "admit_after", "expire_steps"):
            given = getattr(self, field)
            if given is not None:
                object.__setattr__(self, field, _positive(self.name, field, given))
        if self.capacity is None:
            for field, unless in (("admit_after", 1), ("expire_steps", None)):
                if getattr(self, field) != unless:
                    raise ModelError(
                        f"table {self.name} has {field}={getattr(self, field)} but no capacity: it is only for "
                        f"an open vocabulary; declare the table with capacity, or leave {field} out."
                    )
        elif self.oov != "error":
            raise ModelError(
                f"table {self.name} has capacity and oov={self.oov}: unknown ids get the default row; leave oov out."
            )

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row."""
        return (self.dimension,)

    @property
    def is_open(self) -> bool:
        """True for an open vocabulary, which assigns rows to ids on demand."""
        return self.capacity is not None

    @property
    def groups(self) -> int:
        """Number of groups of an open vocabulary; see `row_groups.py`."""
        return group_count(self.capacity or 1)

    @property
    def rows_per_group(self) -> int:
        """Number of rows in each group of an open vocabulary."""
        return rows_per_group(self.capacity or 1)

    @property
    def first_initializer(self) -> Any:
        """Initializer of the whole variable: zeros for an open vocabulary, whose rows are initialized at admission."""
        return 0.0 if self.is_open else self.initializer

    @property
    def default(self) -> Table:
        """Table of the one row that an open vocabulary's unknown ids get."""
        return Table(f"{self.name}/default", self.dimension, rows=1, initializer=self.initializer)

    @property
    def hashed(self) -> bool:
        """True where ids are hashed into rows."""
        return self.hash_buckets is not None

    @property
    def by_field(self) -> bool:
        """True where every column of ids has rows of its own."""
        return not self.is_open and not isinstance(self.rows if self.rows is not None else self.hash_buckets, int)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of ids of each field; one number if the table is not by field."""
        if self.is_open:
            return (self.groups * self.rows_per_group,)
        given: Any = self.rows if self.rows is not None else self.hash_buckets
        return (given,) if isinstance(given, int) else given

    @property
    def offsets(self) -> tuple[int, ...]:
        """First row of each field."""
        found, begin = [], 0
        for size in self.sizes:
            found.append(begin)
            begin += size + self._extra
        return tuple(found)

    @property
    def total(self) -> int:
        """Number of rows of the variable that holds all fields."""
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
