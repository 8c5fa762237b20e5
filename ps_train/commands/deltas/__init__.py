"""Deltas: what has changed between two checkpoints or exports, written and applied.

The idea: the two verbs are one line each of `saved/deltas`, with a report.

Data structures: none of its own.

It does not know running jobs.
"""
