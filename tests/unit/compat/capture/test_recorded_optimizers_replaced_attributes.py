"""Attributes are replaced for a while, and are then as they were."""

from __future__ import annotations

import threading

import pytest

from ps_train.compat.capture.recorded_optimizers import replaced


class Base:
    size = 1


class Derived(Base):
    pass


def test_the_attribute_has_the_other_value_only_within_the_body() -> None:
    with replaced([(Base, "size", 2)]):
        assert Base.size == Derived.size == 2
    assert Base.size == 1


def test_an_inherited_attribute_is_inherited_again() -> None:
    with replaced([(Derived, "size", 3)]):
        assert (Base.size, Derived.size) == (1, 3)
    assert "size" not in vars(Derived)
    with replaced([(Base, "size", 4)]):
        assert Derived.size == 4


def test_the_same_attribute_replaced_twice_is_as_it_was_at_the_end() -> None:
    with replaced([(Base, "size", 2), (Base, "size", 3)]), replaced([(Base, "size", 4)]):
        assert Base.size == 4
    assert Base.size == 1


def test_it_is_as_it_was_after_an_exception() -> None:
    with pytest.raises(KeyError), replaced([(Base, "size", 2)]):
        raise KeyError
    assert Base.size == 1


def test_another_thread_waits_for_the_end_of_the_body() -> None:
    seen: list[int] = []

    def other() -> None:
        with replaced([(Base, "size", 5)]):
            seen.append(Base.size)

    thread = threading.Thread(target=other)
    with replaced([(Base, "size", 2)]):
        thread.start()
        thread.join(0.05)
        assert thread.is_alive() and Base.size == 2
    thread.join(10)
    assert seen == [5] and Base.size == 1
