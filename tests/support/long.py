"""Cases that a quick look leaves out: `./run_tests.sh -m long` runs them alone, `./run_tests.sh -m ""` all tests."""

from __future__ import annotations

from typing import Any

import pytest


def long(*values: Any) -> Any:
    """These values of a parametrized test."""
    return pytest.param(*values, marks=pytest.mark.long)
