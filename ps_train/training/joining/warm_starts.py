"""The warm start of a job, found before any other process is called.

(found,) = find_warm_start(job, model, variables, directory)       # []: the run goes on with its own checkpoints
warm = found.made(job, entries, device)                     # in the graph of the step
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.engine.run_directory.run_checkpoints import run_checkpoints
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import CheckpointEntry
from ps_train.modeling.model import Model
from ps_train.saved.warm_start.choices import Beginning, choose
from ps_train.saved.warm_start.name_map import read_map
from ps_train.saved.warm_start.source_checkpoint import GivenValues, SourceCheckpoint, open_source
from ps_train.saved.warm_start.warm_start import WarmStart, warm_start


@dataclasses.dataclass(frozen=True)
class FoundWarmStart:
    """A checkpoint, and the choice for each variable of a model.

    Attributes:
      source: the checkpoint.
      choices: name of each variable to its choice.
    """

    source: SourceCheckpoint
    choices: Mapping[str, Beginning]

    def made(self, job: Job, entries: Sequence[CheckpointEntry], device: str) -> WarmStart:
        """Returns the warm start, with its operations in the default graph.

        Args:
          job: says from which step on, and whether slots are taken.
          entries: the entries of its own checkpoints.
          device: device of the chief.
        """
        keeps_step = job.warm_start_step == "keep"
        return warm_start(self.choices, self.source, entries, device, job.warm_start_slots, keeps_step)


def find_warm_start(job: Job, model: Model, variables: ModelVariables, directory: str) -> list[FoundWarmStart]:
    """Finds what a model's variables take of the checkpoint of `--warm_start`.

    Args:
      job: has the flags of the warm start.
      model: the user's model, which has been traced.
      variables: the variables of the model.
      directory: its model directory; "" for none.

    Returns:
      It in a list, which is empty without a warm start, and for a run that goes on with its own checkpoints.

    Raises:
      ConfigError: checkpoint, map and model do not fit together.
    """
    source = open_warm_start(job, model, directory)
    if source is None:
        return []
    try:
        choices = choose(variables, source, read_map(job.warm_start_map))
    except DamagedCheckpointError as error:
        raise ConfigError(f"{described(job, 'warm_start')}: {error}; give another checkpoint.") from None
    if job.warm_start_step == "keep":
        step = source.global_step
        if step is None:
            raise ConfigError(f"{described(job, 'warm_start_step')}: {source.shown} has no global step; use 0.")
        if step >= job.max_steps:
            raise ConfigError(
                f"{described(job, 'warm_start_step')} begins at step {step}, and {described(job, 'max_steps')}: use a "
                "larger --max_steps, or --warm_start_step=0."
            )
    return [FoundWarmStart(source, choices)]


def open_warm_start(job: Job, model: Model, directory: str) -> SourceCheckpoint | None:
    """Opens the checkpoint of `--warm_start`; None without one, and for a run that has checkpoints of its own.

    Raises:
      ConfigError: it is not there or damaged, or the map cannot be read.
    """
    if not job.warm_start or (directory and run_checkpoints(os.path.abspath(directory)) and not job.ignore_checkpoints):
        return None
    read_map(job.warm_start_map)
    flag = described(job, "warm_start")
    values = model.saved_values(job.warm_start, flag)
    if values is not None:
        return SourceCheckpoint(job.warm_start, values=GivenValues(values))
    return open_source(job.warm_start, flag)
