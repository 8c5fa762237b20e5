"""The line of an error: its text and the page that helps."""

from __future__ import annotations

import errno
import io
import pickle

import pytest

from ps_train.base import errors
from ps_train.base.console import Console
from ps_train.base.errors import ConfigError, DataError, LostTaskError, PsTrainError, split_page, with_page
from ps_train.config.error_line import error_line, page_of, run_command
from ps_train.config.flags import parse


@pytest.mark.parametrize(
    ("error", "page"),
    [
        (ConfigError("the port is taken."), "troubleshoot#it-does-not-start"),
        (ConfigError("save_steps=-1 (from the command line) is not valid: see --max_steps."), "checkpoints#save"),
        (ConfigError("task_index is not given: a ps needs --task_index."), "hosts#by-hand"),
        (ConfigError("no_flag=3, x.save_steps=4: use --save_secs"), "checkpoints#save"),
        (ConfigError("save_steps=-1", page="serve#export"), "serve#export"),
        (DataError("the column save_steps=1"), "data#malformed-records"),
        (LostTaskError("ps:0 is gone"), "troubleshoot#a-task-died"),
        (OSError(errno.ENOSPC, "No space left on device"), "troubleshoot#a-disk-is-full"),
        (KeyError("mine"), "models#debug-a-model"),
    ],
    ids=repr,
)
def test_an_error_has_its_own_page_or_that_of_a_flag_or_of_its_kind(error, page):
    assert page_of(error) == page


def test_a_command_has_a_page_for_what_has_none():
    assert page_of(ConfigError("no"), "serve#deltas") == page_of(OSError("no"), "serve#deltas") == "serve#deltas"
    assert page_of(ConfigError("save_steps=0"), "serve#deltas") == "checkpoints#save"
    assert page_of(LostTaskError("no"), "serve#deltas") == LostTaskError.page


def test_a_refused_combination_has_the_page_of_its_first_flag():
    with pytest.raises(ConfigError) as caught:
        parse(["--backup_workers=1"], {})
    assert page_of(caught.value) == "concepts#sync"


def test_the_page_is_shown_and_does_not_travel():
    error = ConfigError("save_steps=-1 is not valid.")
    assert error_line(error) == "ps_train: error: save_steps=-1 is not valid. (help: checkpoints#save)"
    assert str(error) == "save_steps=-1 is not valid."
    own = pickle.loads(pickle.dumps(ConfigError("no", page="serve#export")))
    assert (str(own), page_of(own)) == ("no", "serve#export")


def test_a_line_is_split_from_its_page():
    assert split_page(with_page("it broke (twice)", "troubleshoot#it-hangs")) == (
        "it broke (twice)",
        "troubleshoot#it-hangs",
    )
    assert split_page("it broke (help: no)") == ("it broke (help: no)", "")


def test_every_kind_of_error_has_a_page():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PsTrainError)]
    assert len(kinds) > 10 and all("#" in kind.page for kind in kinds)


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError("no"), 2), (LostTaskError("no"), 1), (OSError("no"), 1)], ids=repr
)
def test_a_command_shows_its_error_in_one_line(error, code):
    def work():
        raise error

    output, shown = io.StringIO(), io.StringIO()
    assert run_command(work, Console(output, shown), "serve#deltas") == code
    assert shown.getvalue() == error_line(error, "serve#deltas") + "\n" and output.getvalue() == ""
