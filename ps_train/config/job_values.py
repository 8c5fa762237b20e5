"""All fields of the Job, and the values that follow from several of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ps_train.config.cluster_fields import ClusterFields
from ps_train.config.fields import source_of
from ps_train.config.metric_rule import parse_export
from ps_train.config.output_fields import OutputFields
from ps_train.config.training_fields import TrainingFields
from ps_train.config.validators import AUTO

NO_LIMIT = 2_000_000_000
"""The max_steps of a job that trains until its input ends, and the keep_checkpoints of one that keeps all."""

_LONGEST_AUTO_CALL = 8
"""Maximum steps of a call of `session.run` under steps_per_run=auto.  See docs/decisions/0013-steps-per-run.md."""


@dataclasses.dataclass(frozen=True)
class JobValues(OutputFields, TrainingFields, ClusterFields):
    """The fields of a job, by section, in the order of the help text: bases give theirs from the last to the first.

    Attributes:
      sources: field name to the source of its value, for error texts; empty if unknown.
    """

    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def is_elastic(self) -> bool:
        """Returns True if workers outside the host lists may join."""
        return self.max_workers > 0

    @property
    def has_racks(self) -> bool:
        """Returns True if the workers are in racks."""
        return bool(self.rack or self.rack_file)

    @property
    def last_step(self) -> int | None:
        """Returns the global step at which the job ends; None if it has no known end."""
        return self.max_steps if self.max_steps < NO_LIMIT else None

    @property
    def final_export_dir(self) -> str:
        """Returns export_dir if the chief exports the model at the end, else ""."""
        choice = parse_export(self.export)
        return self.export_dir if choice is not None and choice.kind == "final" else ""

    @property
    def recovery_mode(self) -> str:
        """Returns "partial" or "consistent": the given mode, or the default of the update mode."""
        may_be_partial = self.update == "async" and not self.save_event_secs
        return self.ps_recovery or ("partial" if may_be_partial else "consistent")

    @property
    def has_fixed_calls(self) -> bool:
        """Returns True if all calls of `session.run` make as many steps."""
        return self.steps_per_run != AUTO

    @property
    def longest_call(self) -> int:
        """Returns the maximum number of steps of a call of `session.run`."""
        if self.has_fixed_calls:
            return int(self.steps_per_run)
        if self.has_racks:
            return 1
        return _LONGEST_AUTO_CALL * 2 if self.prefetch_pulls else _LONGEST_AUTO_CALL

    @property
    def is_endless(self) -> bool:
        """Returns True if the input never ends, and all batches have the same size."""
        return self.epochs == 0 and not self.is_dynamic and not self.batch_sizes.is_range

    @property
    def may_run_out_of_input(self) -> bool:
        """Returns True if the input may end within a push of several batches, or a call or round of several steps."""
        return self.accumulate > 1 or (self.epochs > 0 and (self.longest_call > 1 or self.has_local_steps))


def described(job: JobValues, name: str) -> str:
    """Returns `name=value (from source)` for error texts."""
    value = getattr(job, name)
    text = ",".join(value) if isinstance(value, tuple) else value
    return f"{name}={text}{source_of(job.sources, name)}"
