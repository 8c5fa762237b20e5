"""Files of made-up clicks in the challenge's format, with a signal in them that is known.

    make("data/criteo", lines=300_000, seed=1)     # train-00000.txt, test-00000.txt, planted.json
    own_scores("data/criteo")                      # of the planted model, on the test lines: {"auc": ..., ...}

The same arguments make the same bytes, with one version of numpy.  The training lines are parted among files of
different lengths; the test lines, a fifth as many more, are one file.  No TensorFlow: the files are written and read by
plain Python, so that what the reader reads can be compared with it.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any, BinaryIO

import numpy as np

from ps_train.data.criteo.files import files_of
from ps_train.data.criteo.format import INTEGERS
from ps_train.errors import DataError
from ps_train.models.clicks.synthetic_model import Array, Clicks, SyntheticClickModel

LINES = 300_000
"""Enough for the pairs of fields in the planted model to be learned, and few enough to be made in seconds."""

TEST_SHARE = 5
_AT_ONCE = 20_000
_NOTE = "planted.json"


def write_files(
    directory: str, lines: int = LINES, seed: int = 1, parts: int = 1, gz: bool = False
) -> list[pathlib.Path]:
    """Returns the files; raises DataError where the directory already holds something."""
    folder = pathlib.Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DataError(f"{directory} is not empty: choose a new directory, so that no other data are mixed in.")
        planted = SyntheticClickModel(seed)
        sizes = [lines * (2 + part) // (2 * parts + parts * (parts - 1) // 2) for part in range(parts)]
        sizes[-1] += lines - sum(sizes)
        wanted = {f"train-{part:05}.txt": size for part, size in enumerate(sizes)}
        wanted["test-00000.txt"] = max(1, lines // TEST_SHARE)
        made = []
        for stream, (name, size) in enumerate(wanted.items()):
            made.append(folder / (name + ".gz" if gz else name))
            _write(made[-1], planted, np.random.default_rng([seed, stream]), size)
        (folder / _NOTE).write_text(json.dumps({"seed": seed, "lines": lines}) + "\n")  # last: all is there
    except OSError as error:
        raise DataError(f"{directory} cannot be written: {error.strerror or error}.") from None
    return made


def best_scores(directory: str) -> dict[str, float]:
    """AUC, log-loss and click rate of the planted model itself on the labelled test lines of a directory of `make`."""
    labels, clicks = read(list(files_of(directory, "test").files))
    probabilities = SyntheticClickModel(seed_of(directory)).probabilities(clicks)
    return {
        "auc": auc(labels, probabilities),
        "log_loss": float(-np.mean(np.log(np.where(labels == 1, probabilities, 1 - probabilities)))),
        "click_rate": float(labels.mean()),
    }


def seed_of(directory: str) -> int:
    """The seed of the planted model, from the note that `make` leaves beside its files."""
    path = pathlib.Path(directory, _NOTE)
    try:
        return int(json.loads(path.read_text())["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(
            f"{path} cannot be read: {directory} must be a directory that --make has made, and has made to the end."
        ) from None


def read(files: list[pathlib.Path]) -> tuple[Array, Clicks]:
    """Labels and examples of well-formed files, by plain Python."""
    labels, integers, categories = [], [], []
    for path in files:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            for line in file:
                fields = line.rstrip("\r\n").split("\t")
                labels.append(int(fields[0]))
                integers.append([float(field) if field else np.nan for field in fields[1 : 1 + INTEGERS]])
                categories.append([int(field, 16) if field else -1 for field in fields[1 + INTEGERS :]])
    return np.array(labels), Clicks(np.array(integers), np.array(categories, np.int64))


def auc(labels: Array, scores: Array) -> float:
    """The area under the ROC curve: how often a click has a higher score than none, ties counting half."""
    ordered = np.sort(scores)
    ranks = (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right") + 1) / 2
    clicks = int(labels.sum())
    others = len(labels) - clicks
    return float((ranks[labels == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * others))


def _write(path: pathlib.Path, planted: SyntheticClickModel, random: np.random.Generator, lines: int) -> None:
    with path.open("wb") as raw:
        # Without a name and a time in its header a gzipped file depends on its contents alone.
        zipped = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.suffix == ".gz" else None
        out: Any = zipped or raw
        for begin in range(0, lines, _AT_ONCE):
            _write_some(out, planted, random, min(_AT_ONCE, lines - begin))
        if zipped:
            zipped.close()


def _write_some(out: BinaryIO, planted: SyntheticClickModel, random: np.random.Generator, count: int) -> None:
    clicks = planted.draw(random, count)
    labels = random.random(count) < planted.probabilities(clicks)
    columns = [labels.astype(np.int64).astype(str).tolist()]
    columns += (_texts(column, np.isnan(column), "%d") for column in clicks.integers.T)
    columns += (_texts(column, column < 0, "%08x") for column in clicks.categories.T)
    out.write("".join("\t".join(fields) + "\n" for fields in zip(*columns, strict=True)).encode())


def _texts(column: Array, missing: Array, form: str) -> list[str]:
    """Every different value is made a text once."""
    values, places = np.unique(np.where(missing, 0, column).astype(np.int64), return_inverse=True)
    texts = np.array([form % value for value in values.tolist()], object)[places]
    texts[missing] = ""
    return texts.tolist()
