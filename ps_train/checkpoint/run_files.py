"""Files of a run beside its checkpoints: the id of the run, and the checkpoints of a run that is ignored.

read_run_id("/models/run1")               # makes the file `run_id` in a new directory
set_aside("/models/run1")                 # moves all checkpoints, returns a line about them
"""

from __future__ import annotations

import itertools
import os
import uuid

from ps_train.checkpoint.files import checkpoints_in
from ps_train.untrusted import UntrustedError, read_text

_RUN_ID = "run_id"
_MOST_BYTES = 1000
_STATE = "checkpoint"
"""The file with TensorFlow's list of the checkpoints."""


def read_run_id(directory: str) -> str:
    """Returns the id of the run, a random word in a file beside its checkpoints; makes one for a new run."""
    path = os.path.join(directory, _RUN_ID)
    try:
        run_id = read_text(path, _MOST_BYTES).strip()
        if run_id and run_id.isprintable():
            return run_id
    except (FileNotFoundError, UntrustedError):
        pass
    run_id = uuid.uuid4().hex
    with open(path + ".new", "w") as file:
        file.write(run_id + "\n")
    os.replace(path + ".new", path)
    return run_id


def set_aside(directory: str) -> str:
    """Moves the checkpoints of a directory, their list and the run's id into a new directory in it.

    Returns:
      A line that says where they are; "" without a checkpoint.

    Raises:
      OSError: they cannot be moved.
    """
    found = checkpoints_in(directory)
    if not found:
        return ""
    name = os.path.basename(found[0][1]).rpartition("-")[0]
    files = [file for file in os.listdir(directory) if file in (_RUN_ID, _STATE) or file.startswith(name + "-")]
    folder = _new_folder(os.path.join(directory, "ignored"))
    for file in files:
        os.rename(os.path.join(directory, file), os.path.join(folder, file))
    steps = ", ".join(str(step) for step, _ in reversed(found))
    return f"ignored the checkpoints of step {steps}; they are now in {folder}; training starts at step 0"


def _new_folder(base: str) -> str:
    for number in itertools.count(1):
        try:
            os.makedirs(f"{base}-{number}")
        except FileExistsError:
            continue
        break
    return f"{base}-{number}"
