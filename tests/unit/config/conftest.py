"""Flagfiles."""

from __future__ import annotations

import pytest


@pytest.fixture
def flagfile(tmp_path):
    """Writes a flagfile of these lines and returns the argument that names it."""

    def write(*lines, name="job.flags"):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return f"--flagfile={path}"

    return write
