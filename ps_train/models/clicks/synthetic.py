"""Files of synthetic clicks in the challenge's format, drawn from a known model.

    write_files("data/criteo", lines=300_000, seed=1)  # train-00000.txt, test-00000.txt, planted.json
    best_scores("data/criteo")                         # the model's own scores on the test lines: {"auc": ..., ...}

Some fields act in pairs, so a logistic regression stays below the model's scores.  With one version of numpy, the same
arguments give the same bytes.  The training lines are divided among files of different lengths.  One more file has the
test lines, a fifth of their number.  The module does not use TensorFlow: plain Python writes and reads the files, for
comparison with the results of the reader.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any, BinaryIO

import numpy as np

from ps_train.base.errors import DataError
from ps_train.data.criteo.files import files_of
from ps_train.data.criteo.format import INTEGERS
from ps_train.models.clicks.synthetic_model import Array, Clicks, SyntheticClickModel

LINES = 300_000
"""Default number of training lines: enough to learn the model's pairs of fields, and written within seconds."""

TEST_SHARE = 5
"""Training lines for each test line."""

_CHUNK_LINES = 20_000
_NOTE = "planted.json"


def write_files(
    directory: str, lines: int = LINES, seed: int = 1, parts: int = 1, gz: bool = False
) -> list[pathlib.Path]:
    """Writes training and test files to a new directory, and returns their paths.

    Args:
      directory: the directory; it must be empty or missing.
      lines: number of training lines.
      seed: seed of the model and of the lines.
      parts: number of training files.
      gz: gzip the files.

    Raises:
      DataError: the directory is not empty, or cannot be written.
    """
    folder = pathlib.Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DataError(
                f"{directory} is not empty: choose a new directory, because its other files would be read too."
            )
        model = SyntheticClickModel(seed)
        sizes = [lines * (2 + part) // (2 * parts + parts * (parts - 1) // 2) for part in range(parts)]
        sizes[-1] += lines - sum(sizes)
        lines_of = {f"train-{part:05}.txt": size for part, size in enumerate(sizes)}
        lines_of["test-00000.txt"] = max(1, lines // TEST_SHARE)
        paths = []
        for stream, (name, size) in enumerate(lines_of.items()):
            paths.append(folder / (name + ".gz" if gz else name))
            _write(paths[-1], model, np.random.default_rng([seed, stream]), size)
        (folder / _NOTE).write_text(
            json.dumps({"seed": seed, "lines": lines}) + "\n"
        )  # written last, as a sign that all files are complete
    except OSError as error:
        raise DataError(f"{directory} cannot be written: {error.strerror or error}.") from None
    return paths


def best_scores(directory: str) -> dict[str, float]:
    """Returns AUC, log-loss and click rate of the model that drew the data, on the test lines.

    Args:
      directory: a directory made by `write_files`.
    """
    labels, clicks = read(list(files_of(directory, "test").files))
    probabilities = SyntheticClickModel(seed_of(directory)).probabilities(clicks)
    return {
        "auc": auc(labels, probabilities),
        "log_loss": float(-np.mean(np.log(np.where(labels == 1, probabilities, 1 - probabilities)))),
        "click_rate": float(labels.mean()),
    }


def seed_of(directory: str) -> int:
    """Returns the seed of the model that drew the data, from the note beside the files.

    Raises:
      DataError: the directory has no readable note.
    """
    path = pathlib.Path(directory, _NOTE)
    try:
        return int(json.loads(path.read_text())["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path} cannot be read: {directory} must be a directory that --make has completed.") from None


def read(files: list[pathlib.Path]) -> tuple[Array, Clicks]:
    """Reads labels and examples of well-formed files, in plain Python."""
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
    """Returns the area under the ROC curve, with ties counting half.

    Args:
      labels: [n], 0 or 1.
      scores: float64 [n].
    """
    ordered = np.sort(scores)
    ranks = (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right") + 1) / 2
    clicks = int(labels.sum())
    others = len(labels) - clicks
    return float((ranks[labels == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * others))


def _write(path: pathlib.Path, model: SyntheticClickModel, random: np.random.Generator, lines: int) -> None:
    with path.open("wb") as raw:
        # No name and time in the header, so the bytes of a gzipped file depend on its contents alone.
        zipped = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.suffix == ".gz" else None
        out: Any = zipped or raw
        for begin in range(0, lines, _CHUNK_LINES):
            _write_lines(out, model, random, min(_CHUNK_LINES, lines - begin))
        if zipped:
            zipped.close()


def _write_lines(out: BinaryIO, model: SyntheticClickModel, random: np.random.Generator, count: int) -> None:
    clicks = model.draw(random, count)
    labels = random.random(count) < model.probabilities(clicks)
    columns = [labels.astype(np.int64).astype(str).tolist()]
    columns += (_texts(column, np.isnan(column), "%d") for column in clicks.integers.T)
    columns += (_texts(column, column < 0, "%08x") for column in clicks.categories.T)
    out.write("".join("\t".join(fields) + "\n" for fields in zip(*columns, strict=True)).encode())


def _texts(column: Array, missing: Array, template: str) -> list[str]:
    """Returns the values as texts; formats each distinct value once, for speed."""
    values, inverse = np.unique(np.where(missing, 0, column).astype(np.int64), return_inverse=True)
    texts = np.array([template % value for value in values.tolist()], object)[inverse]
    texts[missing] = ""
    return texts.tolist()
