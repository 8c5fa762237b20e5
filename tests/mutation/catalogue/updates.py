"""Mutations of `updates/`, `gradients/` and `optimizers.py`."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

MUTATIONS = [
    Mutation(
        "a late ticket moves a cursor back",
        "ps_train/updates/sides.py",
        "accepted & late",
        "late",
        ("tests/cluster/test_sharing.py::test_a_late_push_of_what_others_have_used_moves_no_cursor_back",),
        within="Side._bring",
    ),
]
