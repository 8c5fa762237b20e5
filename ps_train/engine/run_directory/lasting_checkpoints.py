"""The checkpoints that stay for good, one for each span of hours, and the file of model_dir that names them.

    read_lasting("/models/run1")        # Lasting(next_time=1795737600.0, steps=(4711, 9400))

The file is lasting_checkpoints.json:

    {"next_time": 1795737600.0, "steps": [4711, 9400]}
"""

from __future__ import annotations

import dataclasses
import json
import os

from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text
from ps_train.base.whole_file import write_whole

LASTING = "lasting_checkpoints.json"


@dataclasses.dataclass(frozen=True)
class Lasting:
    """The checkpoints of a run that stay for good.

    Attributes:
      next_time: the next one is the first that is written later, in seconds since 1970; 0 before the first save.
      steps: their global steps.
    """

    next_time: float = 0.0
    steps: tuple[int, ...] = ()


def read_lasting(directory: str) -> Lasting:
    """Returns what the file of a model directory says; nothing if the file is not there, or damaged."""
    try:
        found = parse_json(read_text(os.path.join(directory, LASTING)))
    except (OSError, UntrustedError):
        return Lasting()
    if is_of("dict", found) and is_of("float", found.get("next_time")) and is_of("list[int]", found.get("steps")):
        return Lasting(found["next_time"], tuple(found["steps"]))
    return Lasting()


def write_lasting(directory: str, lasting: Lasting) -> None:
    """Writes the file."""
    write_whole(os.path.join(directory, LASTING), json.dumps(dataclasses.asdict(lasting)) + "\n")


def forget_lasting_after(directory: str, step: int) -> None:
    """Leaves out the steps after a restored one, which are made again."""
    lasting = read_lasting(directory)
    steps = tuple(one for one in lasting.steps if one <= step)
    if steps != lasting.steps:
        write_lasting(directory, dataclasses.replace(lasting, steps=steps))
