"""Which files hold a split, and whether a part of their lines is held out of it.

    chosen = files_of("data/criteo", "test")       # Chosen(files=(...), part=HELD_OUT)

The challenge's own test file has no labels, so there are two rules:

1. Where a directory has labelled files test*, these are the test split, and train* are the training split.
2. Otherwise every tenth line or so of the labelled files is held out as the test split: a line whose fingerprint is
   divisible by 10.  That depends on nothing but the line, so it is the same for any number of replicas and parts, and
   equal lines never come into both splits.
"""

from __future__ import annotations

import dataclasses
import gzip
import logging
import pathlib
import zlib

from ps_train.data.criteo.format import COLUMNS
from ps_train.errors import DataError

log = logging.getLogger(__name__)

ALL, HELD_OUT, NOT_HELD_OUT = "all lines", "held out", "not held out"
HOLD_OUT_EVERY = 10
_TRAINING = ("train", "part", "day_")


@dataclasses.dataclass(frozen=True)
class SplitFiles:
    """The files of a split in the order of their names, and which of their lines belong to it."""

    files: tuple[pathlib.Path, ...]
    part: str


def files_of(data_dir: str, split: str) -> SplitFiles:
    """Raises DataError, with what is allowed, where there is no such file."""
    path = pathlib.Path(data_dir)
    if data_dir and path.is_file():
        return SplitFiles((path,), HELD_OUT if split == "test" else NOT_HELD_OUT)
    if not data_dir or not path.is_dir():
        raise DataError(
            f"data_dir={data_dir or '(not given)'} is neither a file nor a directory: use --data_dir=PATH, or make "
            "data with python -m ps_train.data.criteo --make PATH."
        )
    training = _named(path, _TRAINING)
    if not training:
        raise DataError(
            f"data_dir={data_dir} has no file that begins with {', '.join(_TRAINING)}: put the challenge's train.txt "
            "or train.txt.gz there, or make data with python -m ps_train.data.criteo --make PATH."
        )
    test = [file for file in _named(path, ("test",)) if _labelled(file)]
    if test:
        return SplitFiles(tuple(test if split == "test" else training), ALL)
    return SplitFiles(tuple(training), HELD_OUT if split == "test" else NOT_HELD_OUT)


def _named(directory: pathlib.Path, prefixes: tuple[str, ...]) -> list[pathlib.Path]:
    """Of a file that is there both plain and gzipped the plain one."""
    found = [path for path in sorted(directory.iterdir()) if path.is_file() and path.name.startswith(prefixes)]
    return [path for path in found if not (path.suffix == ".gz" and path.with_suffix("") in found)]


def _labelled(path: pathlib.Path) -> bool:
    """Only a line of one column less is taken for one without a label; other faults are for the reader to name."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            columns = file.readline().count(b"\t") + 1
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}.") from None
    if columns == COLUMNS - 1:
        log.info("%s has no labels: a tenth of the labelled lines is held out instead", path)
    return columns != COLUMNS - 1
