"""Is a child that failed started again?  Decided from exit codes and counts alone.

    restarts = Restarts(on_failure=True, most=3)
    restarts.delay("ps:0", code=-9)         # 0.5: start it again after so many seconds; None: do not

Pure, standard library only: the launcher uses it.
"""

from __future__ import annotations

import collections

from ps_train.errors import EXIT_CONFIG, EXIT_DONE

_FIRST_SECS, _LONGEST_SECS = 0.5, 30.0


class RestartPolicy:
    """Args:
    on_failure: whether anything is started again at all.
    most: how many times each task may be.
    """

    def __init__(self, on_failure: bool, most: int) -> None:
        self.most = most if on_failure else 0
        self._made: collections.Counter[str] = collections.Counter()

    def delay(self, task: str, code: int) -> float | None:
        """Seconds until the task is started again, twice as many each time; None where it is not.

        Never for a wrong configuration, which a restart cannot help."""
        if code in (EXIT_DONE, EXIT_CONFIG) or self._made[task] >= self.most:
            return None
        self._made[task] += 1
        return float(min(_FIRST_SECS * 2 ** (self._made[task] - 1), _LONGEST_SECS))

    def restarts_made(self, task: str) -> int:
        return self._made[task]
