"""Values of --max_steps_ahead and --backup_workers: one number, or bounds between which it follows the stragglers.

WaitLimits.of_steps_ahead("0..8")      # WaitLimits(lower=0, upper=8)
WaitLimits.of_backups("auto", 20)      # WaitLimits(lower=0, upper=2): a tenth of the workers
"""

from __future__ import annotations

from ps_train.base.bounds import Bounds
from ps_train.config.validators import AUTO, Check, is_parsed_by


class WaitLimits(Bounds):
    """The bounds of what an update mode goes on without."""

    @classmethod
    def of_steps_ahead(cls, value: int | str) -> WaitLimits:
        """Returns the bounds of a value of --max_steps_ahead.

        Raises:
          ValueError: the value is not valid.
        """
        limits = cls.parse(value)
        if ".." in str(value) and not limits.is_range:
            raise ValueError(value)
        return limits

    @classmethod
    def of_backups(cls, value: int | str, workers: int) -> WaitLimits:
        """Returns the bounds of a value of --backup_workers; `auto` reaches a tenth of the workers, rounded up.

        Args:
          value: a number or `auto`.
          workers: number of workers of the job.

        Raises:
          ValueError: the value is not valid.
        """
        if value == AUTO:
            return cls(0, min(workers - 1, -(-workers // 10)))
        if ".." in str(value):
            raise ValueError(value)
        return cls.parse(value)

    @property
    def values(self) -> range:
        """The possible numbers."""
        return range(self.lower, self.upper + 1)


max_steps_ahead = Check(
    "a whole number of at least 0, or two as in 0..8, where the second is the larger one",
    is_parsed_by(WaitLimits.of_steps_ahead),
)

backup_workers = Check(
    "a whole number of at least 0, or auto for up to a tenth of the workers",
    is_parsed_by(lambda value: WaitLimits.of_backups(value, 1)),
)
