"""The garbage collector stands still while graphs are made, and then is as it was."""

from __future__ import annotations

import gc

import pytest

from ps_train.base import gc_control


@pytest.fixture(params=[True, False], ids=["on", "off"])
def before(request):
    was_enabled = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_enabled else gc.disable)()
    gc.unfreeze()


def test_it_stands_still_for_a_body_and_is_then_as_it_was(before):
    with pytest.raises(ValueError, match="of the body"), gc_control.suspended():
        assert not gc.isenabled()
        raise ValueError("of the body")
    assert gc.isenabled() == before


def test_it_runs_within_a_body_from_the_resumption_on(before):
    with gc_control.suspended():
        gc_control.resume()
        assert gc.isenabled() and gc.get_freeze_count() > 0
    assert gc.isenabled() == before
