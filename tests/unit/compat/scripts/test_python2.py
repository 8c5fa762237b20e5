"""An error of a program for Python 2 says so in one line."""

from __future__ import annotations

import pytest

from ps_train.compat.scripts.python2 import advice


def error_of(code: str) -> BaseException:
    try:
        exec(compile(code, "/there/train.py", "exec"), {})
    except Exception as error:
        return error
    raise AssertionError(f"{code} is right")


@pytest.mark.parametrize(
    "code",
    [
        "print 'step'",
        "exec 'x = 1'",
        "try:\n    pass\nexcept ValueError, error:\n    pass",
        "raise ValueError, 'x'",
        "if 1 <> 2: pass",
        "mode = 0777",
        "if True:\n\tx = 1\n        y = 2",
        "for i in xrange(3): pass",
        "{}.iteritems()",
        "import cPickle",
    ],
)
def test_python_2_is_named(code):
    found = advice(error_of(code))
    assert found.startswith("train.py was written for Python 2, and TensorFlow runs on Python 3: convert ")
    assert "\n" not in found


@pytest.mark.parametrize("code", ["x = ", "import no_such_module", "rows", "{}.items_()", "[].has_key", "1 / 0"])
def test_other_errors_get_no_advice(code):
    assert advice(error_of(code)) == ""
