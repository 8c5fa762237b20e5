"""The format of the Criteo Display Advertising Challenge: clicks, a line each, of 40 columns parted by tabs.

    data = criteo.load("data/criteo", "train")      # a Stream: what a model's `data` returns

A line is a label (0 or 1), 13 integers and 26 hexadecimal numbers that stand for categories; each of the 39 may be
missing.  Examples are given as `({"integers", "present", "categories"}, label)`; see `reader.py`.

Files: a directory's train* and test* (or only part* or day_*), or one file; plain, or gzipped where they end in .gz;
see `files.py`.  TensorFlow is imported by the reader alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ps_train.data.criteo.reader import Criteo


def load(data_dir: str, split: str, max_bad_lines: int | None = None) -> Criteo:
    """The split "train" or "test" of a directory or file; raises DataError where there is none.

    Args:
      max_bad_lines: how many malformed lines each process skips; None: --max_bad_lines says it.
    """
    from ps_train.data.criteo.files import files_of
    from ps_train.data.criteo.reader import Criteo

    return Criteo(files_of(data_dir, split), max_bad_lines)
