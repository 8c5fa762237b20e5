"""Mutations of `roles/`, `hooks/`, `checkpoint.py` and `snapshots.py`."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

MUTATIONS = [
    Mutation(
        "silence of ps 0 counts against a task that has not joined yet",
        "ps_train/roles/heart.py",
        "self._start += secs",
        "self._start += 0 * secs",
        ("tests/unit/test_policies.py::TestWatch",),
        within="Watch.excuse",
    ),
    Mutation(
        "the rate of a resumed run counts the steps of the runs before",
        "ps_train/roles/finish.py",
        "round(self.made / self.wall_secs, 3)",
        "round(self.step / self.wall_secs, 3)",
        ("tests/unit/test_policies.py::TestEnding",),
        within="Ending.result",
    ),
    Mutation(
        "a rehearsal counts as a hold",
        "ps_train/snapshots.py",
        "self._held.pop()",
        "pass",
        ("tests/cluster/test_snapshots.py::test_a_rehearsal_is_not_a_checkpoint_and_not_reported",),
        within="Snapshots.rehearse",
    ),
    Mutation(
        "a shard that another worker holds now is not noticed",
        "ps_train/roles/shares.py",
        "self._seen.holders[some.shard] == self._me and ",
        "",
        ("tests/cluster/test_sharing.py::test_a_worker_whose_shard_was_given_to_another_reads_on_elsewhere",),
        within="Shares._is_as_left",
    ),
]
