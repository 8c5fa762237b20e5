"""The doctor's processes are gone at its end."""

from __future__ import annotations

import os

from ps_train.commands.doctor.owned_processes import Children, children_of
from tests.support.processes import is_alive


def test_children_are_gone_at_the_end():
    with Children() as children:
        child = children.start(["http.server", "0", "--bind", "127.0.0.1"], os.environ)
        assert is_alive(child.pid)
        assert child.pid in children_of(os.getpid())
    assert not is_alive(child.pid)
