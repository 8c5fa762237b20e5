"""The columns of the Criteo format: a label, 13 integers and 26 categories."""

from __future__ import annotations

INTEGERS, CATEGORIES = 13, 26
COLUMNS = 1 + INTEGERS + CATEGORIES

MAX_BAD_LINES = 100
"""Default number of malformed lines that one process skips before it fails."""
