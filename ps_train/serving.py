"""Models that are served from Python and follow their training by deltas: help: serve#follow-a-training."""

from __future__ import annotations

from ps_train.saved.deltas.following import Served, load

__all__ = ["Served", "load"]
