"""The format of the Criteo Display Advertising Challenge: one click record a line, in 40 columns separated by tabs.

    data = criteo.load("data/criteo", "train")      # a Stream for a model's `data` to return

A line has a label (0 or 1), 13 integers and 26 hexadecimal numbers that stand for categories.  Each of the 39 features
may be missing.  Examples are `({"integers", "present", "categories"}, label)`; see `reader.py`.

The files are a directory's train* and test* (or only part* or day_*), or one file; see `files.py`.  They are plain or
gzipped.  Only the reader imports TensorFlow.
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
