"""The files of a split, and the rule that holds out a part of their lines.

    split_files = files_of("data/criteo", "test")       # SplitFiles(files=(...), part=SplitPart.HELD_OUT)

The challenge's own test file has no labels, so there are two rules:

1. If a directory has labelled files test*, these are the test split, and train* are the training split.
2. Otherwise about every tenth line of the labelled files is held out as the test split: a line whose hash is divisible
   by 10.  The hash depends on the line alone.  The split is therefore the same for any number of replicas and files,
   and equal lines never come into both splits.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import pathlib

from ps_train.base.errors import DataError
from ps_train.data.criteo.format import COLUMNS
from ps_train.data.gzip_files import unpacked

log = logging.getLogger(__name__)

HOLD_OUT_EVERY = 10
_TRAINING = ("train", "part", "day_")


class SplitPart(enum.Enum):
    """The lines of the files that belong to a split."""

    ALL = "all lines"
    HELD_OUT = "held out"
    NOT_HELD_OUT = "not held out"


@dataclasses.dataclass(frozen=True)
class SplitFiles:
    """The files of a split.

    Attributes:
      files: in the order of their names.
      part: the lines of the files that belong to the split.
    """

    files: tuple[pathlib.Path, ...]
    part: SplitPart


def files_of(data_dir: str, split: str) -> SplitFiles:
    """Returns the files of the split "train" or "test" of a directory or file.

    Raises:
      DataError: there is no such file, or it cannot be read.
    """
    path = pathlib.Path(data_dir)
    if data_dir and path.is_file():
        return SplitFiles((path,), SplitPart.HELD_OUT if split == "test" else SplitPart.NOT_HELD_OUT)
    if not data_dir or not path.is_dir():
        raise DataError(
            f"data_dir={data_dir or '(not given)'} is neither a file nor a directory: use --data_dir=PATH, or make "
            "data with python -m ps_train.models.clicks --make PATH."
        )
    training = _named(path, _TRAINING)
    if not training:
        raise DataError(
            f"data_dir={data_dir} has no file that begins with {', '.join(_TRAINING)}: put the challenge's train.txt "
            "or train.txt.gz there, or make data with python -m ps_train.models.clicks --make PATH."
        )
    test = [file for file in _named(path, ("test",)) if _labelled(file)]
    if test:
        return SplitFiles(tuple(test if split == "test" else training), SplitPart.ALL)
    return SplitFiles(tuple(training), SplitPart.HELD_OUT if split == "test" else SplitPart.NOT_HELD_OUT)


def _named(directory: pathlib.Path, prefixes: tuple[str, ...]) -> list[pathlib.Path]:
    """Returns files by the beginnings of their names; the plain one where a file also exists gzipped."""
    found = [path for path in sorted(directory.iterdir()) if path.is_file() and path.name.startswith(prefixes)]
    return [path for path in found if not (path.suffix == ".gz" and path.with_suffix("") in found)]


def _labelled(path: pathlib.Path) -> bool:
    """Returns False if the first line lacks exactly one column, the label; the reader reports all other faults."""
    with unpacked(path) as file:
        columns = file.readline().count(b"\t") + 1
    if columns == COLUMNS - 1:
        log.info("%s has no labels: a tenth of the labelled lines is held out instead", path)
    return columns != COLUMNS - 1
