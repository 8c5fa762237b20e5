"""The one line with which a name of TensorFlow 1 is refused."""

from __future__ import annotations

from typing import Any


def refused(code: str, **names: Any) -> str:
    """Runs code that must be refused; returns the text of the error, which has one line."""
    try:
        exec(code, names)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        assert "\n" not in str(error)
        return str(error)
    raise AssertionError(f"{code} is not refused")
