"""Plans of variables: their balance and slices, and that every process finds the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_train.engine.variables.plan import (
    LARGE_BYTES,
    MAX_IMBALANCE,
    MAX_LARGE_IMBALANCE,
    MESSAGE_BYTES,
    Plan,
    VariableSpec,
    human_bytes,
    make_plan,
)


def variable(name, *shape, divisible=True):
    return VariableSpec(name, shape, "float32", 4, divisible)


@st.composite
def variables(draw, shapes):
    drawn = draw(st.lists(st.tuples(shapes, st.booleans()), min_size=1, max_size=8))
    return [variable(f"v{number}", *shape, divisible=cut) for number, (shape, cut) in enumerate(drawn)]


ANY_SHAPE = st.lists(st.integers(1, 60), max_size=3)
NUM_PS = st.integers(1, 6)
SMALL_THRESHOLD = st.integers(64, 20_000)


def rows_of(plan, spec):
    return [row for piece in plan.slices_of(spec.name) for row in range(piece.begin, piece.begin + piece.shape[0])]


@given(variables(ANY_SHAPE), NUM_PS, SMALL_THRESHOLD)
def test_slices_cover_every_row_exactly_once(specs, num_ps, threshold):
    plan = make_plan(specs, num_ps, threshold)
    for spec in specs:
        if spec.shape:
            assert rows_of(plan, spec) == list(range(spec.shape[0]))
        assert sum(piece.bytes for piece in plan.slices_of(spec.name)) == spec.bytes
        assert sum(piece.size for piece in plan.slices_of(spec.name)) == math.prod(spec.shape)
        assert {piece.shape[1:] for piece in plan.slices_of(spec.name)} == {spec.shape[1:]}


@given(variables(ANY_SHAPE), NUM_PS, SMALL_THRESHOLD)
def test_every_slice_lives_on_one_ps_and_has_rows(specs, num_ps, threshold):
    plan = make_plan(specs, num_ps, threshold)
    assert sorted(piece.name for ps in range(num_ps) for piece in plan.slices_on(ps)) == sorted(
        p.name for p in plan.slices
    )
    assert len({piece.name for piece in plan.slices}) == len(plan.slices)
    assert all(piece.size > 0 for piece in plan.slices)
    assert sum(plan.bytes_per_ps()) == sum(spec.bytes for spec in specs)


@given(variables(ANY_SHAPE), NUM_PS, SMALL_THRESHOLD)
def test_slices_of_one_variable_differ_by_one_row_at_most(specs, num_ps, threshold):
    plan = make_plan(specs, num_ps, threshold)
    for spec in specs:
        rows = [piece.shape[0] for piece in plan.slices_of(spec.name) if piece.shape]
        assert not rows or max(rows) - min(rows) <= 1


@given(variables(ANY_SHAPE), NUM_PS, SMALL_THRESHOLD, st.randoms(use_true_random=False))
def test_every_process_finds_the_same_plan_even_if_it_makes_the_variables_in_another_order(
    specs, num_ps, threshold, random
):
    shuffled = random.sample(specs, len(specs))
    first, again, other = (make_plan(s, num_ps, threshold) for s in (specs, list(specs), shuffled))
    assert first == again
    assert {piece.name: piece for piece in first.slices} == {piece.name: piece for piece in other.slices}


@given(variables(st.tuples(st.integers(60, 3000), st.integers(1, 64))), NUM_PS)
def test_the_fullest_ps_is_within_a_fifth_of_the_mean_where_variables_have_rows_enough(specs, num_ps):
    specs = [variable(spec.name, *spec.shape) for spec in specs]
    assert make_plan(specs, num_ps).imbalance() <= MAX_IMBALANCE


@given(
    st.lists(st.tuples(st.integers(60, 3000), st.integers(1, 64)), min_size=1, max_size=6),
    st.lists(st.integers(1, 20), max_size=6),
    NUM_PS,
)
def test_small_variables_that_cannot_be_cut_do_not_spoil_the_balance(weights, fixed, num_ps):
    specs = [variable(f"w{n}", *shape) for n, shape in enumerate(weights)]
    most = sum(spec.bytes for spec in specs) // 4 // (20 * num_ps)  # all of them are less than a tenth of the mean
    specs += [variable(f"b{n}", min(size, most), divisible=False) for n, size in enumerate(fixed) if most]
    assert make_plan(specs, num_ps).imbalance() <= MAX_IMBALANCE


@pytest.mark.parametrize("fixed", [variable("b", 5100, divisible=False), variable("b", 1, 5100)])
def test_a_variable_that_cannot_be_cut_is_balanced_by_the_slices_of_one_that_can(fixed):
    """40,000 bytes in 1000 rows and 20,400 in one piece: 30,200 on each ps is possible."""
    plan = make_plan([variable("a", 1000, 10), fixed], num_ps=2)
    assert plan.imbalance() <= MAX_IMBALANCE


def test_the_largest_variables_are_placed_first_each_on_the_ps_with_the_fewest_bytes():
    specs = [variable(name, size, divisible=False) for name, size in [("a", 10), ("b", 60), ("c", 40), ("d", 30)]]
    plan = make_plan(specs, num_ps=2)
    assert {piece.variable: piece.ps for piece in plan.slices} == {"b": 0, "c": 1, "d": 1, "a": 0}
    assert plan.bytes_per_ps() == [280, 280]
    assert plan.imbalance() == 1.0


def test_a_variable_above_the_threshold_is_partitioned_over_all_ps_even_where_balance_does_not_ask_for_it():
    specs = [variable("a", 102, 100), variable("b", 102, 100)]
    plan = make_plan(specs, num_ps=2, partition_bytes=40_000)
    assert [piece.name for piece in plan.slices_of("a")] == ["a/part_0", "a/part_1"]
    assert {piece.ps for piece in plan.slices_of("a")} == {0, 1} == {piece.ps for piece in plan.slices_of("b")}


def test_a_variable_of_exactly_the_threshold_stays_whole():
    specs = [variable("a", 10_000), variable("b", 10_000)]
    assert [piece.name for piece in make_plan(specs, num_ps=2, partition_bytes=40_000).slices] == ["a", "b"]


def test_large_variables_stay_whole_where_they_balance_and_the_smallest_that_can_level_the_rest_is_cut():
    """Six layers of 16 MiB and one of 6.1 MiB, on 2 ps: 3 layers on each, and half of the other."""
    specs = [variable(f"layer{number}", 2048, 2048) for number in range(6)]
    specs += [variable("first", 784, 2048), variable("logits", 2048, 10)]
    plan = make_plan(specs, num_ps=2)
    assert {piece.variable for piece in plan.slices if piece.count > 1} == {"first"}
    assert plan.imbalance() <= MAX_LARGE_IMBALANCE


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), NUM_PS)
def test_ps_of_many_bytes_are_filled_to_a_fiftieth(sizes, num_ps):
    """Rows of 4 KiB; sizes in MiB."""
    plan = make_plan([variable(f"v{n}", size << 8, 1 << 10) for n, size in enumerate(sizes)], num_ps)
    assert plan.imbalance() <= MAX_LARGE_IMBALANCE or plan.excess() <= LARGE_BYTES


def test_a_variable_is_cut_into_slices_that_fit_a_message_even_on_one_ps():
    rows = MESSAGE_BYTES // 4096
    plan = make_plan([variable("a", rows, 1024), variable("b", 2 * rows + 1, 1024)], num_ps=1)
    assert [(piece.variable, piece.count) for piece in plan.slices] == [("a", 1)] + [("b", 3)] * 3


def test_a_small_variable_is_cut_where_balance_asks_for_it():
    plan = make_plan([variable("w", 784, 10), variable("b", 10)], num_ps=2)
    assert [piece.shape for piece in plan.slices_of("w")] == [(392, 10), (392, 10)]
    assert [piece.name for piece in plan.slices_of("b")] == ["b"]


def test_nothing_is_cut_where_the_balance_is_good_already():
    plan = make_plan([variable("a", 100), variable("b", 95)], num_ps=2)
    assert [piece.name for piece in plan.slices] == ["a", "b"]


def test_a_single_ps_holds_everything_whole():
    plan = make_plan([variable("huge", 4, 1 << 20), variable("b", 3)], num_ps=1)
    assert [(piece.name, piece.count, piece.ps) for piece in plan.slices] == [("b", 1, 0), ("huge", 1, 0)]


def test_a_plan_does_not_depend_on_the_order_in_which_variables_are_made():
    variables = [variable(name, rows) for name, rows in (("b", 3), ("a", 3), ("d", 70), ("c", 3))]
    plans = [make_plan(order, num_ps=2) for order in (variables, variables[::-1])]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    "spec", [variable("fixed", 50, 50, divisible=False), variable("scalar"), variable("row", 1, 9)]
)
def test_what_cannot_be_cut_stays_whole_and_keeps_its_name(spec):
    plan = make_plan([spec], num_ps=3, partition_bytes=1)
    assert [(piece.name, piece.shape, piece.begin) for piece in plan.slices] == [(spec.name, spec.shape, 0)]


def test_a_variable_with_fewer_rows_than_there_are_ps_is_cut_into_its_rows():
    plan = make_plan([variable("w", 2, 1000)], num_ps=4)
    assert [piece.shape for piece in plan.slices_of("w")] == [(1, 1000), (1, 1000)]


def test_an_empty_variable_is_placed():
    plan = make_plan([variable("none", 0, 4), variable("b", 8)], num_ps=2)
    assert [piece.shape for piece in plan.slices_of("none")] == [(0, 4)]


def test_a_plan_without_bytes_is_even():
    assert Plan(3, ()).imbalance() == 1.0


def test_bytes_follow_from_shape_and_type():
    assert VariableSpec("x", (3, 4), "float64", 8).bytes == 96
    assert VariableSpec("x", (), "int64", 8).bytes == 8


def test_the_table_shows_every_ps_with_its_bytes_and_every_slice_with_its_rows():
    plan = make_plan([variable("hidden/weights", 1000, 64), variable("bias", 10), variable("scale")], num_ps=2)
    table = plan.table()
    for ps, load in enumerate(plan.bytes_per_ps()):
        assert f"ps:{ps}  {human_bytes(load)}" in table
    for piece in plan.slices_of("hidden/weights"):
        assert f"hidden/weights rows {piece.begin}-{piece.begin + 499}  500x64 float32" in table
    assert "bias  10 float32" in table
    assert "scale  scalar float32" in table


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")],
)
def test_bytes_are_written_for_people(count, text):
    assert human_bytes(count) == text


@given(variables(ANY_SHAPE), SMALL_THRESHOLD, st.lists(st.floats(0.1, 10), min_size=1, max_size=6))
def test_weighted_slices_cover_every_row_exactly_once_and_equal_weights_are_even(specs, threshold, weights):
    plan = make_plan(specs, len(weights), threshold, weights=weights)
    for spec in specs:
        if spec.shape:
            assert rows_of(plan, spec) == list(range(spec.shape[0]))
    assert all(piece.size > 0 for piece in plan.slices)
    same = make_plan(specs, len(weights), threshold, weights=[2.0] * len(weights))
    assert sorted(same.bytes_per_ps()) == sorted(make_plan(specs, len(weights), threshold).bytes_per_ps())


@pytest.mark.parametrize("spread", [False, True])
def test_each_ps_holds_bytes_in_proportion_to_its_weight(spread):
    specs = [VariableSpec(f"v{n}", (1000, 8), "float32", 4, True, spread) for n in range(20)]
    held = make_plan(specs, 3, 1 << 10, weights=[1.0, 1.0, 0.25]).bytes_per_ps()
    assert held[2] / held[0] == pytest.approx(0.25, rel=0.15) and held[1] / held[0] == pytest.approx(1, rel=0.1)
    assert make_plan(specs, 3, 1 << 10, weights=[1.0, 1.0, 0.25]).imbalance() <= MAX_IMBALANCE
