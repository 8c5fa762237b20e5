"""Names that may be imported, and say what to write when they are used."""

from __future__ import annotations

import pickle

import pytest

from ps_train.compat.tf1 import contrib_refused
from ps_train.compat.tf1.refused_use import refused


def test_classes_and_functions_are_known_by_their_first_letter() -> None:
    found = refused("Strategy run", "tf.contrib.x", "leave it out", __name__)
    assert isinstance(found["Strategy"], type) and not isinstance(found["run"], type)
    assert not isinstance("a strategy", found["Strategy"])
    for name in found:
        with pytest.raises(NotImplementedError, match=rf"^tf\.contrib\.x\.{name} is not supported: leave it out\.$"):
            found[name](1, key=2)
        assert found[name].__module__ == __name__ and "cannot be used" in (found[name].__doc__ or "")
        assert found[name].__name__ == name


def test_a_subclass_may_be_defined_but_not_made() -> None:
    class Own(refused("Strategy", "tf.contrib.x", "leave it out", __name__)["Strategy"]):  # type: ignore[misc]
        pass

    with pytest.raises(NotImplementedError):
        Own()


def test_pickle_finds_them_in_their_module() -> None:
    assert pickle.loads(pickle.dumps(contrib_refused.TPU["shard"])) is contrib_refused.TPU["shard"]
