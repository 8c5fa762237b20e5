"""Files of a run beside its checkpoints: the id of the run, and what is moved with a run that is ignored.

read_run_id("/models/run1")               # makes the file `run_id` in a new directory
set_aside("/models/run1")                 # moves all that the run has left, returns a line about it
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ps_train.engine.run_directory.cut_checkpoints import EVENT_CUTS, steps_of_cuts
from ps_train.engine.run_directory.lasting_checkpoints import LASTING
from ps_train.engine.run_directory.run_checkpoints import LIST, NAME, checkpoints_in, run_of
from ps_train.engine.run_directory.run_record import GENERATIONS, RUN_ID, stored_run_id, write_run_id

EVAL_DIRECTORY = "eval"
"""Directory of the evaluator's event files, in model_dir."""

DELTAS = "deltas"
"""Directory of the run's chain of deltas, in model_dir."""

WARM_START_REPORT = "warm_start.txt"
"""File with what the run has taken of another training's checkpoint."""

TRACKING = "tracking.json"
"""File with the ids of the run in experiment trackers."""


class RunFile(NamedTuple):
    """A file or directory in a model directory.

    Attributes:
      name: its name, or a pattern of names.
      about: its content, for the documents.
      is_record: True for a small file that a chief on another machine goes on with.
      is_of_run: True if it is moved with a run that is ignored.
    """

    name: str
    about: str
    is_record: bool = False
    is_of_run: bool = True


FILES = (
    RunFile(
        f"{NAME}-*",
        "A checkpoint's `.index` and `.data-*`: whole variables under their own names.",
    ),
    RunFile(RUN_ID, "The run's id, by which a restarted chief knows its checkpoints and ps.", is_record=True),
    RunFile(GENERATIONS, "Which checkpoints count after a recovery.", is_record=True),
    RunFile(LIST, "TensorFlow's list of the checkpoints.", is_record=True),
    RunFile(EVENT_CUTS, "Checkpoints at event times (`--save_event_secs`).", is_record=True),
    RunFile(LASTING, "Checkpoints that stay for good (`--keep_every_hours`).", is_record=True),
    RunFile(TRACKING, "The run's ids in experiment trackers.", is_record=True),
    RunFile(
        "result.json",
        "Result of a finished run: `global_step`, `examples`, `loss`, `metrics`, `wall_secs`, `steps_per_sec`, "
        "`examples_per_sec`, `update`, `cluster`, `save`, `health`, `skipped`, `dropped`; where they apply `slices`, "
        "`batch_size`, `loss_scale`, `staleness`, `waiting`.",
    ),
    RunFile("report.html", "The status page as it was at the end."),
    RunFile("events.out.tfevents.*", "Curves for TensorBoard."),
    RunFile(EVAL_DIRECTORY, "The evaluator's curves, and `exports.json` about its exports."),
    RunFile("eval_*", "An Estimator's evaluations by name."),
    RunFile("graph.pbtxt", "The graph, where a hook of TensorFlow writes it."),
    RunFile("plugins", "Traces of `--profile`."),
    RunFile(DELTAS, "The run's chain of deltas (`--delta_every_secs`)."),
    RunFile(WARM_START_REPORT, "What the run took of another training's checkpoint."),
    RunFile("status.json", "State of the run, for the evaluator; touched every second.", is_of_run=False),
    RunFile("lock.json", "The chief that writes here; removed at its end.", is_of_run=False),
    RunFile("doctor.json", "Network speed to each ps, by `doctor`.", is_of_run=False),
    RunFile("export", "Exported models, where `--export_dir` names this directory.", is_of_run=False),
    RunFile("ignored-*", "What `--ignore_checkpoints` has moved away.", is_of_run=False),
)
"""What a run leaves in its model directory.  The rest is the user's."""

RECORDS = tuple(file.name for file in FILES if file.is_record)
"""Small files that a chief on another machine goes on with."""

NEEDED_STEPS: Sequence[Callable[[str], Collection[int]]] = (steps_of_cuts,)
"""Each returns steps in a model directory whose checkpoints are needed though they are not the newest."""


def is_of_run(name: str) -> bool:
    """Returns True for the name of a file or directory that belongs to a run.

    `status.json` and the lock name their process, and `export` holds models that may be served.
    """
    return any(file.is_of_run and fnmatch.fnmatchcase(name, file.name) for file in FILES)


def link_or_copy(source: str, target: str) -> None:
    """Makes a hard link, which keeps a file that the run removes; a copy where the file system has no links.

    A target that exists stays.

    Raises:
      FileNotFoundError: the run has removed the source.
    """
    with contextlib.suppress(FileExistsError):
        try:
            os.link(source, target)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError:
            shutil.copy2(source, target)


def link_checkpoint(checkpoint: str, folder: str) -> list[str]:
    """Links the files of a checkpoint into a folder, which may be new; returns them, the index last.

    Raises:
      FileNotFoundError: the run has removed the checkpoint.
    """
    found = sorted(glob.glob(glob.escape(checkpoint) + ".*"), key=lambda file: file.endswith(".index"))
    if f"{checkpoint}.index" not in found:
        raise FileNotFoundError(f"{checkpoint} is not there")
    os.makedirs(folder, exist_ok=True)
    links = [os.path.join(folder, os.path.basename(file)) for file in found]
    for file, link in zip(found, links, strict=True):
        link_or_copy(file, link)
    return links


def read_run_id(directory: str) -> str:
    """Returns the id of the run, a random word in a file beside its checkpoints.

    Where there is none, the run of the newest checkpoint goes on, which may have been copied without the file.  Without
    a checkpoint a new run begins.
    """
    if run_id := stored_run_id(directory):
        return run_id
    found = (run_of(path)[0] for _, path in checkpoints_in(directory))
    run_id = next((run_id for run_id in found if run_id), uuid.uuid4().hex)
    write_run_id(directory, run_id)
    return run_id


def set_aside(directory: str) -> str:
    """Moves all that a run has left in a directory into a new directory in it.

    These are its checkpoints, their list, its id, its event files, its evaluations and its results.

    Returns:
      A line that says where they are; "" without a checkpoint.

    Raises:
      OSError: they cannot be moved.
    """
    found = checkpoints_in(directory)
    if not found:
        return ""
    files = [file for file in os.listdir(directory) if is_of_run(file)]
    names = (f"ignored-{number}" for number in itertools.count(1))
    folder = next(path for name in names if not os.path.exists(path := os.path.join(directory, name)))
    os.makedirs(folder)
    for file in files:
        os.rename(os.path.join(directory, file), os.path.join(folder, file))
    return ignored_line([step for step, _ in found], folder)


def ignored_line(steps: Sequence[int], folder: str) -> str:
    """Returns a line about the checkpoints that are ignored, and now in a folder."""
    numbers = ", ".join(map(str, sorted(steps)))
    return f"ignored the checkpoints of step {numbers}; they are now in {folder}; training starts at step 0"
