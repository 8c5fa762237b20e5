"""Files and directories that appear whole: written beside their place, then renamed to it.

    write_whole("result.json", json.dumps(result))
    with whole_file("part-0.csv") as new:           # a path, for what writes files itself
        shutil.copyfile("old.csv", new)
    with whole_folder("deltas/0002") as new:        # an empty directory
        shutil.copy("old/manifest.json", new)

A reader finds the file of before or the new one.  What a killed writer leaves has a name that ends with NEW.  Nothing
is flushed to the disk: after a loss of power a file may be empty.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

NEW = ".new"
"""End of the names of files and directories that are being written."""


def write_whole(path: str, content: str | bytes, is_contended: bool = False) -> None:
    """Writes a file; a text as UTF-8.

    Args:
      path: of the file.
      content: all of it.
      is_contended: several processes may write the file at the same time.

    Raises:
      OSError: it cannot be written; the file of before stays.
    """
    with whole_file(path, is_contended) as new, open(new, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: str, is_contended: bool = False) -> Iterator[str]:
    """Gives the path of a file that the body writes; it gets its name when the body ends well.

    Args:
      path: the file's name.
      is_contended: several processes may write the file at the same time.  Then what a killed writer leaves stays,
        while otherwise the next writer takes its place.
    """
    new = _another(path) if is_contended else path + NEW
    yield new
    os.replace(new, path)


@contextlib.contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Gives a new directory that gets its name when the body ends well, and is removed otherwise.

    Args:
      path: the directory's name; an empty directory there is replaced.
    """
    new = _another(path)
    os.makedirs(new)
    try:
        yield new
        os.rename(new, path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _another(path: str) -> str:
    return f"{path}.{os.urandom(8).hex()}{NEW}"
