"""The columns of the Criteo format: a label, 13 integers and 26 categories."""

from __future__ import annotations

INTEGERS, CATEGORIES = 13, 26
COLUMNS = 1 + INTEGERS + CATEGORIES
