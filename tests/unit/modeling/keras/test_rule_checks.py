"""Which rules update each row by itself."""

from __future__ import annotations

from tests.support.keras_rules import (
    KO,
    STARTS,
    traced,
    traced_by_name,
)


def test_a_variable_is_divisible_where_its_rule_updates_each_row_by_itself() -> None:
    constrained = {"kernel"}  # MaxNorm; NonNeg of the bias is by element
    assert traced_by_name("Adam")[0].not_divisible == {"scalar"} | constrained
    assert traced_by_name("Muon")[0].not_divisible == {"scalar"} | constrained
    assert traced_by_name("Lamb")[0].not_divisible == set(STARTS)
    for name, moves in (("Adagrad", False), ("RMSprop", True), ("Adam", True), ("Ftrl", True), ("SGD", False)):
        assert traced_by_name(name)[0].moves_unseen_rows("embeddings") is moves


def test_slots_are_sums_where_an_update_adds_to_them_what_does_not_depend_on_them() -> None:
    sums = ("SGD", "Adagrad")
    for name in (*sums, "momentum", "Adam", "RMSprop", "Adadelta", "Lion", "Ftrl", "accumulation_and_more"):
        assert traced_by_name(name)[0].rules["embeddings"].adds_to_slots is (name in sums)


def test_a_norm_that_no_trial_reaches_is_noticed() -> None:
    assert traced(KO.SGD(0.1, clipnorm=1e9), 0)[0].not_divisible == set(STARTS)


def test_a_number_of_rows_that_is_a_constant_of_the_shape_follows_a_slice() -> None:
    rules, _ = traced(KO.Adam(0.1, gradient_accumulation_steps=2), 0)  # zeros of the variable's shape
    assert "embeddings" not in rules.not_divisible
