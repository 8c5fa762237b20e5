"""The values that a new run begins with: the model's own, and what it takes of another checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.config.job_values import described
from ps_train.engine.run_directory.run_files import WARM_START_REPORT
from ps_train.engine.variables.variables import CheckpointEntry
from ps_train.saved.warm_start.initial_values import InitialValues
from ps_train.saved.warm_start.writing import Target, reader_of
from ps_train.training.duties.duty import Setting
from ps_train.training.joining.warm_starts import FoundWarmStart

WriteValues = Callable[[v1.Session], None]


def first_values(setting: Setting, found: Sequence[FoundWarmStart]) -> list[WriteValues]:
    """Returns functions that write the first values into initialized variables, in their order.

    Args:
      setting: what duties are made of; its graph is open.
      found: the warm start of the job, at most one.
    """
    prepared, device = setting.prepared, setting.prepared.device
    given = InitialValues(prepared.variables, setting.agreed.plan, setting.step.ps.variables, device, prepared.job.seed)
    return [given.write, *_of_slots(setting, device), *(_warm_start(setting, one, device) for one in found)]


def _of_slots(setting: Setting, device: str) -> list[WriteValues]:
    """Returns a function that writes what slots begin with, if that is not one number, into all slices."""
    entries: dict[str, list[CheckpointEntry]] = {}
    for entry in setting.step.ps.entries:
        entries.setdefault(entry.key, []).append(entry)
    values = setting.prepared.model.slot_values()
    pairs = [(Target(entries[key], device), reader_of(value)) for key, value in values.items() if key in entries]

    def write(session: v1.Session) -> None:
        for target, read in pairs:
            target.write_all(session, read)

    return [write] if pairs else []


def _warm_start(setting: Setting, found: FoundWarmStart, device: str) -> WriteValues:
    """Returns a function that writes the values of a warm start and its report."""
    job, console = setting.prepared.job, setting.console
    warm = found.made(job, setting.step.ps.entries, device)

    def write(session: v1.Session) -> None:
        report = warm.report()
        for line in report.splitlines() if job.warm_start_report else [warm.summary()]:
            console.line(line)
        try:
            warm.write(session)
        except DamagedCheckpointError as error:
            raise ConfigError(f"{described(job, 'warm_start')}: {error}; give another checkpoint.") from None
        with open(os.path.join(setting.joined.directory, WARM_START_REPORT), "w") as file:
            file.write(report + "\n")

    return write
