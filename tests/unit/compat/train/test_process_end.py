"""The end of a process where a program of TensorFlow 1 blocks."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError, JobFailedError
from ps_train.compat.train.process_end import end_process_after
from ps_train.config.error_line import error_line


def fail(error):
    raise error


def test_the_process_ends_with_0_after_the_wait():
    done = []
    with pytest.raises(SystemExit) as end:
        end_process_after(lambda: done.append(1))
    assert end.value.code == 0 and done == [1]


@pytest.mark.parametrize(("error", "code"), [(JobFailedError("no worker ended well"), 1), (ConfigError("no ps"), 2)])
def test_an_error_of_ps_train_is_one_line_and_an_exit_code(capsys, error, code):
    with pytest.raises(SystemExit) as end:
        end_process_after(lambda: fail(error))
    assert end.value.code == code
    assert capsys.readouterr().err == error_line(error) + "\n"


@pytest.mark.parametrize("error", [ValueError("of the program"), SystemExit(143)])
def test_another_exception_passes(error):
    with pytest.raises(type(error)) as end:
        end_process_after(lambda: fail(error))
    assert end.value is error
