"""The line with which a process shows its error: the text, and the page of the documents that helps.

    error_line(ConfigError("save_steps=-1 is not valid"))
    # "ps_train: error: save_steps=-1 is not valid (help: checkpoints#save)"
    run_command(work, console, VERBS["delta"].page)     # the exit code; shows an error as such a line

Texts that travel, to a launcher, a file or the status of a run, have no page.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

from ps_train.base.console import ERROR_BEGINS, Console
from ps_train.base.errors import EXIT_FAILED, ConfigError, PsTrainError, SaveError, with_page
from ps_train.config.fields import job_fields
from ps_train.config.job import Job, Task

USER_CODE = "models#debug-a-model"
"""Page for an exception of the user's code."""

_FLAG_PAGES = {field.name: field.metadata["page"] for field in (*job_fields(Task), *job_fields(Job))}
_FLAG = re.compile(r"(?<![\w.-])(?:--(\w+)|(\w+)(?:\.\w+)?=)")
"""A flag in a text: `--save_steps`, or `save_steps=0` as `described` writes it."""


def page_of(error: BaseException, otherwise: str = "") -> str:
    """Returns the page, and its heading, that helps with an error.

    Args:
      error: the error.
      otherwise: the page where neither the error nor a flag in its text has one; "" for the page of its kind.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SaveError.page
    if not isinstance(error, PsTrainError):
        return otherwise or USER_CODE
    own = vars(error).get("page")
    if own is None and isinstance(error, ConfigError):
        names = [found[1] or found[2] for found in _FLAG.finditer(str(error))]
        own = next((_FLAG_PAGES[name] for name in names if name in _FLAG_PAGES), otherwise)
    return own or error.page


def error_line(error: BaseException, otherwise: str = "", text: str = "") -> str:
    """Returns the line that shows an error.

    Args:
      error: the error.
      otherwise: as in `page_of`.
      text: what it says; "" for the text of the error.
    """
    return with_page(f"{ERROR_BEGINS}{text or error}", page_of(error, otherwise))


def run_command(work: Callable[[], int], console: Console, page: str) -> int:
    """Runs a command; shows its error in one line.

    Args:
      work: the command; it returns its exit code.
      console: receives the error.
      page: page of the documents, and its heading, about the command.

    Returns:
      The exit code.
    """
    try:
        return work()
    except (PsTrainError, OSError) as error:
        console.error(error_line(error, page))
        return error.exit_code if isinstance(error, PsTrainError) else EXIT_FAILED
