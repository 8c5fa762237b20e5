"""Record of a run: its id, and the steps at which its generations began.

    record = read_record("/models/run1")
    record.accepts(run_id, generation, step=2000)       # False for what another run made, or what was rolled back
    begin_generation("/models/run1", generation, step=1000)

The files `run_id` and `generations` lie beside the checkpoints.  A generation that begins at an earlier step than its
predecessor reached has rolled back the predecessor's later steps.
"""

from __future__ import annotations

import dataclasses
import os
import re

from ps_train.base.untrusted import UntrustedError, read_text
from ps_train.base.whole_file import write_whole

RUN_ID, GENERATIONS = "run_id", "generations"
_MOST_BYTES, _MOST_GENERATIONS_BYTES = 1000, 1 << 20
_LINE = re.compile(r"(\S{1,100}) (\d{1,18})")


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """The id of a run, and its generations.

    Attributes:
      run_id: the id; "" if the directory has none yet.
      generations: name and first step of each generation, oldest first.
    """

    run_id: str = ""
    generations: tuple[tuple[str, int], ...] = ()

    def accepts(self, run_id: str, generation: str, step: int) -> bool:
        """Returns True if a step of a generation is a part of this run, and was not rolled back.

        A thing without a run id is accepted: an earlier version wrote it, or TensorFlow.  An unknown generation counts
        as one before the known ones.
        """
        if not run_id or not self.run_id:
            return True
        names = [name for name, _ in self.generations]
        later = self.generations[names.index(generation) + 1 if generation in names else 0 :]
        return run_id == self.run_id and all(step <= first for _, first in later)


def read_record(directory: str) -> RunRecord:
    """Returns the record of the run in a model directory; an empty one if there is none."""
    text = _read(directory, GENERATIONS, _MOST_GENERATIONS_BYTES)
    found = [match for line in text.splitlines() if (match := _LINE.fullmatch(line))]
    return RunRecord(stored_run_id(directory), tuple((match[1], int(match[2])) for match in found))


def stored_run_id(directory: str) -> str:
    """Returns the id in the file of a directory; "" if there is none."""
    run_id = _read(directory, RUN_ID, _MOST_BYTES).strip()
    return run_id if run_id.isprintable() else ""


def write_run_id(directory: str, run_id: str) -> None:
    """Writes the id of a run atomically."""
    _write(directory, RUN_ID, run_id + "\n")


def begin_generation(directory: str, generation: str, step: int) -> None:
    """Adds a generation to the record; leaves out earlier ones of which no step is left."""
    kept = [(name, first) for name, first in read_record(directory).generations if first <= step and name != generation]
    _write(directory, GENERATIONS, "".join(f"{name} {first}\n" for name, first in [*kept, (generation, step)]))


def _read(directory: str, name: str, most_bytes: int) -> str:
    try:
        return read_text(os.path.join(directory, name), most_bytes)
    except (OSError, UntrustedError):
        return ""


def _write(directory: str, name: str, text: str) -> None:
    write_whole(os.path.join(directory, name), text)
