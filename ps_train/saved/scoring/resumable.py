"""Predictions for files, resumable: chunks in a directory beside the result, which they become at the end.

    plan = ScoringPlan(export="export/1", data=DataSpec(["data/test-*"]), to="out.parquet")
    with ScoringProgress.of(plan, scoring) as progress:
        for part in progress.open_parts():
            ...                             # its chunks
        progress.finish()

A chunk gets its name when it is complete, and the result gets its name when all chunks are in it.  So the same command
goes on after any end of its process, and its result does not depend on how often that was, nor on the processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ps_train.base.errors import ConfigError, DataError, PsTrainError, one_line
from ps_train.base.remote_files import RemoteDirectory, scheme_of
from ps_train.base.untrusted import UntrustedError, parse_json, read_text
from ps_train.base.whole_file import NEW, whole_file, write_whole
from ps_train.data.opened_files import is_of_tensorflow, is_there, upload
from ps_train.engine.run_directory.spool import spool_path
from ps_train.saved.scoring.opened_data import open_data
from ps_train.saved.scoring.rows import Data, DataSpec, Rows
from ps_train.saved.scoring.scored_rows import Results, format_of_result
from ps_train.saved.serving.exported import Exported
from ps_train.saved.serving.feature_values import Array

_PLAN, _LOCK, _WHOLE, _FINISHED, _DONE = "plan.json", "lock", "whole", "finished.json", ".done"
_OWN = re.compile(rf"\d{{6,}}(\.\d{{6,}}|{_DONE})|{_PLAN}|{_LOCK}|{_WHOLE}|{_FINISHED}")
_CHUNK_ROWS, _CHUNK_BYTES = 1 << 16, 64 << 20
"""Least rows of a chunk, or least bytes of its carried columns, but for the last one of a part."""


@dataclasses.dataclass(frozen=True)
class ScoringPlan:
    """A command that predicts for files.

    Attributes:
      export: directory of a SavedModel, or the one above its number.
      data: the files.
      to: the result.
      signature: of the SavedModel; "" for its default.
      to_format: format of the result; "": by its name.
      columns: names of the carried columns; None for all.
      prefix: what the names of predictions begin with.
      batch_size: rows of one call of the model.
    """

    export: str
    data: DataSpec
    to: str
    signature: str = ""
    to_format: str = ""
    columns: tuple[str, ...] | None = None
    prefix: str = ""
    batch_size: int = 4096

    @property
    def folder(self) -> str:
        """Local directory of the chunks: beside the result, or in TMPDIR if that is at an address."""
        return spool_path(self.to, "predict") if scheme_of(self.to) else f"{self.to}.parts"


class Scoring:
    """A plan with its model, its data and the format of its result.

    Args:
      threads: threads of the model; 0: as many as cores.

    Attributes:
      data: the rows.

    Raises:
      ConfigError, DataError: model, data and result do not fit.
    """

    def __init__(self, plan: ScoringPlan, threads: int = 0) -> None:
        self._plan, self._exported = plan, Exported(plan.export, plan.signature, threads)
        kind = format_of_result(plan.to, plan.to_format)
        self.data: Data = open_data(plan.data, self._exported, plan.columns or (), kind)
        self._outputs = [plan.prefix + name for name in self._exported.outputs]
        self._check_outputs((self.data.columns or ()) if plan.columns is None else plan.columns)
        is_gzipped = plan.to.endswith(".gz")
        self.results = Results(kind, self._outputs, is_gzipped, self.data.is_of_examples, self.data.is_of_json_texts)

    def _check_outputs(self, columns: Iterable[str]) -> None:
        if twice := sorted({*columns} & {*self._outputs}):
            raise ConfigError(f"{twice[0]} is a column of the data and a prediction: rename predictions by --prefix.")

    def identity(self) -> str:
        """Returns a fingerprint of all that the result depends on."""
        found = dataclasses.asdict(self._plan) | {"files": self.data.identity(), "model": self._exported.hash}
        found["chunks"] = "arrow"  # their format
        return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()

    def score_part(self, part: int) -> None:
        """Writes the chunks of a part that are not there yet."""
        base = os.path.join(self._plan.folder, f"{part:06}")
        batches = self.data.read(part, self._plan.batch_size)
        rows_of_part = 0
        for number in itertools.count():
            path, scored, count, size = f"{base}.{number:06}", [], 0, 0
            is_done = os.path.exists(path)
            for rows in batches:
                carried = rows.carried(self._plan.columns)
                self._check_outputs(carried)
                count, size = count + len(rows), size + sum(array.nbytes for array in carried.values())
                if not is_done:
                    scored.append((carried, self._predictions(rows)))
                if count >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
                    break
            if not count:
                break
            rows_of_part += count
            if not is_done:
                with whole_file(path) as new:
                    self.results.write(new, scored)
        _write(base + _DONE, {"rows": rows_of_part, "chunks": number})

    def _predictions(self, rows: Rows) -> dict[str, Array]:
        found = rows.predictions(self._exported)
        return {self._plan.prefix + name: values for name, values in found.items()}

    def close(self) -> None:
        """Frees the model."""
        self._exported.close()


class ScoringProgress:
    """The state of a plan, in its directory; use `ScoringProgress.of`."""

    def __init__(self, plan: ScoringPlan, scoring: Scoring) -> None:
        self._plan, self._scoring = plan, scoring

    @classmethod
    @contextlib.contextmanager
    def of(cls, plan: ScoringPlan, scoring: Scoring) -> Iterator[ScoringProgress]:
        """Begins a plan, or goes on with it; no other process can until the end of the body.

        Raises:
          ConfigError: the directory cannot be made, or another process works there.
        """
        _check_folder(plan)
        try:
            os.makedirs(plan.folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"to={plan.to} cannot be written ({error.strerror}): use another path.") from None
        with open(os.path.join(plan.folder, _LOCK), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"to={plan.to} is being written by another process: wait for it.") from None
            found, wanted = _read(os.path.join(plan.folder, _PLAN)), {"identity": scoring.identity()}
            if found != wanted:
                _empty(plan)
                _write(os.path.join(plan.folder, _PLAN), wanted)
            yield cls(plan, scoring)

    def open_parts(self) -> list[int]:
        """Returns the numbers of the parts that are not complete."""
        return [part for part in range(self._scoring.data.parts) if not os.path.exists(self._done(part))]

    def finish(self) -> int:
        """Puts the result together; returns its number of rows."""
        parts = [(part, _read(self._done(part))) for part in range(self._scoring.data.parts)]
        chunks = [
            os.path.join(self._plan.folder, f"{part:06}.{number:06}")
            for part, done in parts
            for number in range(done["chunks"])
        ]
        if not chunks:
            raise DataError("the data have no rows: check --data.")
        whole = os.path.join(self._plan.folder, _WHOLE)
        self._scoring.results.join(chunks, whole)
        if scheme_of(self._plan.to):
            with _told_as_config_error(self._plan.to):
                upload(whole, self._plan.to)
        else:
            _write(os.path.join(self._plan.folder, _FINISHED), os.stat(whole).st_ino)
            os.replace(whole, self._plan.to)
        _remove(self._plan)
        return sum(done["rows"] for _, done in parts)

    def _done(self, part: int) -> str:
        return os.path.join(self._plan.folder, f"{part:06}{_DONE}")


def check_target(plan: ScoringPlan, overwrite: bool) -> None:
    """Checks that the result may get its name; removes what a process has left that ended right after that.

    Raises:
      ConfigError: there is something of this name, or the file system is not known.
    """
    if not scheme_of(plan.to):
        if os.path.isdir(plan.to):
            raise ConfigError(f"to={plan.to} is a directory: give the path of a file.")
        there = os.path.exists(plan.to)
        if there and _read(os.path.join(plan.folder, _FINISHED)) == os.stat(plan.to).st_ino:
            _check_folder(plan)
            _remove(plan)
    else:
        with _told_as_config_error(plan.to):
            there = is_there(plan.to)
            if not is_of_tensorflow(plan.to):
                RemoteDirectory(plan.to.rpartition("/")[0]).check_writable()
    if there and not overwrite:
        raise ConfigError(f"to={plan.to} is there already: use another path, or --overwrite.")


@contextlib.contextmanager
def _told_as_config_error(path: str) -> Iterator[None]:
    """Makes an error of the body, which works at an address, a ConfigError."""
    try:
        yield
    except PsTrainError:
        raise
    except Exception as error:  # packages of file systems have some of their own
        raise ConfigError(f"to={path} cannot be written ({one_line(error).rstrip('.')}): use another path.") from None


def _check_folder(plan: ScoringPlan) -> None:
    """Raises ConfigError if the directory of the chunks has files that this command did not write."""
    if not os.path.isdir(plan.folder):
        return
    names = {name.removesuffix(NEW) for name in os.listdir(plan.folder)}
    strange = sorted(name for name in names if not _OWN.fullmatch(name))
    if not strange and _PLAN not in names:
        strange = sorted(names - {_LOCK})
    if strange:
        raise ConfigError(
            f"to={plan.to} needs the directory {plan.folder} for its chunks, and that has files of another origin, as "
            f"{strange[0]}: use another path, or remove the directory."
        )


def _empty(plan: ScoringPlan) -> None:
    """Removes all but the lock from the directory of the chunks: what makes a part complete first, the plan last."""
    for name in sorted(os.listdir(plan.folder), key=lambda name: (name == _PLAN, not name.endswith(_DONE))):
        if name != _LOCK:
            os.remove(os.path.join(plan.folder, name))


def _remove(plan: ScoringPlan) -> None:
    _empty(plan)
    os.remove(os.path.join(plan.folder, _LOCK))
    os.rmdir(plan.folder)


def _write(path: str, value: Any) -> None:
    write_whole(path, json.dumps(value))


def _read(path: str) -> Any:
    try:
        return parse_json(read_text(path))
    except (OSError, UntrustedError):
        return None
