"""Starting: a start-up of small, without the making of its data."""

from __future__ import annotations

from benchmarks.workloads.small import Small


class Starting(Small):
    about = "as small, with data that take no time to make"
    train_examples = 1024
