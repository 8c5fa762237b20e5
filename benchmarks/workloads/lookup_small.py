"""Lookup with a small batch: messages weigh more than rows."""

from __future__ import annotations

from benchmarks.workloads.lookup import DIMENSION, Lookup


class LookupSmall(Lookup):
    about = "as lookup, batch 128"
    batch_size = 128
    parameters = Lookup.parameters - (16_127 - 2_636) * DIMENSION
    check_steps = 2000
