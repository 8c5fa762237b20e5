"""The format of the Criteo Display Advertising Challenge: one click record a line, in 40 columns separated by tabs.

    data = criteo.load("data/criteo", "train")      # a Stream for a model's `data` to return

A line has a label (0 or 1), 13 integers and 26 hexadecimal numbers that stand for categories.  Each of the 39 features
may be missing.  A batch is `(features, labels)`, and `labels` is float32 [batch]:

    integers     float32 [batch, 13]   as in the file; 0 if missing
    present      float32 [batch, 13]   1, or 0 if the integer is missing
    categories   int64 [batch, 26]     the number that the hexadecimal digits stand for; -1 if missing

The files are a directory's train* and test* (or only part* or day_*), or one file.  They are plain or gzipped, and on a
local disk.  Without labelled test* files about a tenth of the lines is held out as the test split: the same lines for
any number of workers, and equal lines are never in both splits.

Lines without 40 columns, with another label, or with a wrong number are skipped, up to --max_bad_lines.
`python -m ps_train.models.clicks --make DIRECTORY` writes files of this format.  Only the reader imports TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ps_train.data.criteo.format import CATEGORIES, INTEGERS

if TYPE_CHECKING:
    from ps_train.data.criteo.reader import Criteo

__all__ = ["CATEGORIES", "INTEGERS", "load"]


def load(data_dir: str, split: str, max_bad_lines: int | None = None) -> Criteo:
    """Returns the split "train" or "test" of a directory or file.

    Args:
      data_dir: the directory or file.
      split: "train" or "test".
      max_bad_lines: malformed lines that each process may skip; None: the flag --max_bad_lines decides.

    Raises:
      DataError: there is no such file.
    """
    from ps_train.data.criteo.files import files_of
    from ps_train.data.criteo.reader import Criteo

    return Criteo(files_of(data_dir, split), max_bad_lines)
