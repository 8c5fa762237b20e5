"""A snapshot of variables: the values of one moment, while updates go on."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.checkpoint.snapshot import Snapshot
from ps_train.engine.variables.variables import CheckpointEntry, ps_device
from tests.support.graphs.local import LocalSession

SIZES = {0: 100, 1: 300}
"""Elements of float32 on each ps."""


class Taken:
    """A snapshot of a variable on each of two ps."""

    def __init__(self, limit_bytes: int) -> None:
        with tf.Graph().as_default() as graph:
            self.variables = []
            for ps, size in SIZES.items():
                with v1.device(ps_device(ps)):
                    self.variables.append(v1.Variable(tf.zeros([size]), use_resource=True, name=f"w{ps}"))
            entries = [CheckpointEntry(f"w{ps}", "", one) for ps, one in enumerate(self.variables)]
            self.snapshot = Snapshot(entries, [], 2, limit_bytes)
            self.update = [one.assign_add(tf.ones_like(one), read_value=False) for one in self.variables]
            self.copies = [(entry.key, entry.variable.read_value()) for entry in self.snapshot.copies]
        self.session = LocalSession(graph)

    def values(self) -> dict[str, Any]:
        return {key: np.unique(self.session.run(value)).tolist() for key, value in self.copies}


def test_copies_have_the_values_of_the_cut_whatever_updates_follow() -> None:
    taken = Taken(limit_bytes=1200)
    assert taken.snapshot.is_copied and taken.snapshot.limit_bytes == 1200
    for number in (1, 3):
        taken.session.run(taken.update)
        taken.session.run(taken.snapshot.prepare)
        taken.session.run(taken.snapshot.cut)
        taken.session.run(taken.update)
        assert taken.values() == {"w0": [number], "w1": [number]}
    assert taken.session.run(taken.variables[0])[0] == 4
    taken.session.run(taken.snapshot.drop)
    assert taken.session.run(taken.snapshot.kept_bytes).tolist() == [0, 0] and taken.snapshot.tables == []


def test_variables_that_are_too_large_on_one_ps_are_not_copied_and_a_line_says_which(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        taken = Taken(limit_bytes=1199)
    assert not taken.snapshot.is_copied
    assert [entry.variable for entry in taken.snapshot.copies] == taken.variables
    (record,) = [record for record in caplog.records if "max_snapshot_mib" in record.message]
    assert record.message.startswith("the variables of ps:1 other than large tables take 0 MiB, more than")
    taken.session.run([taken.snapshot.prepare, taken.snapshot.cut, taken.snapshot.drop])
