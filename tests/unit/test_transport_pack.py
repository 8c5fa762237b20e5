"""How slices are joined into parcels, and which parcel carries the number of examples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ps_train.graph.plan import Slice
from ps_train.graph.transport import ALONE_BYTES, HEADER_SIZE, PARCEL_BYTES, pack, with_header

FLOATS_ALONE = ALONE_BYTES // 4
ITEM_BYTES = {"float32": 4, "float64": 8, "int32": 4}


def piece(name, size, dtype="float32"):
    return Slice(name, 0, 1, 0, (size,), dtype, size * ITEM_BYTES[dtype], ps=0)


def names(parcels):
    return [[p.variable for p in parcel.slices] for parcel in parcels]


PIECES = st.lists(st.tuples(st.integers(1, 2 * FLOATS_ALONE), st.sampled_from(sorted(ITEM_BYTES))), max_size=30).map(
    lambda drawn: [piece(f"v{number}", size, dtype) for number, (size, dtype) in enumerate(drawn)]
)


@given(PIECES)
def test_every_slice_travels_in_exactly_one_parcel(pieces):
    parcels = pack(pieces, ps=0)
    assert sorted(name for parcel in names(parcels) for name in parcel) == sorted(p.variable for p in pieces)
    assert all(parcel.slices for parcel in parcels)


@given(PIECES)
def test_a_parcel_holds_one_type_and_is_as_long_as_its_slices(pieces):
    for parcel in pack(pieces, ps=3):
        assert {p.dtype for p in parcel.slices} == {parcel.dtype}
        assert parcel.length == sum(p.size for p in parcel.slices)
        assert parcel.ps == 3
        assert not parcel.header


@given(PIECES)
def test_joined_slices_stay_below_the_size_of_a_parcel(pieces):
    for parcel in pack(pieces, ps=0):
        if len(parcel.slices) > 1:
            assert sum(p.bytes for p in parcel.slices) <= PARCEL_BYTES
            assert all(p.bytes < ALONE_BYTES for p in parcel.slices)


@given(PIECES)
def test_every_process_packs_alike(pieces):
    assert pack(pieces, ps=0) == pack(list(pieces), ps=0)


def test_small_slices_are_joined_in_their_order():
    assert names(pack([piece("b", 3), piece("a", 2), piece("c", 1)], ps=0)) == [["b", "a", "c"]]


def test_a_large_slice_travels_alone():
    parcels = pack([piece("a", 3), piece("large", FLOATS_ALONE), piece("b", 2)], ps=0)
    assert sorted(names(parcels)) == [["a", "b"], ["large"]]


def test_a_slice_just_below_the_limit_is_joined():
    assert names(pack([piece("a", FLOATS_ALONE - 1), piece("b", 2)], ps=0)) == [["a", "b"]]


def test_a_parcel_that_would_grow_too_large_is_closed():
    size = FLOATS_ALONE - 1
    full = PARCEL_BYTES // (size * 4)
    pieces = [piece(f"v{number}", size) for number in range(full + 1)]
    assert [len(parcel.slices) for parcel in pack(pieces, ps=0)] == [full, 1]


def test_types_are_not_mixed():
    parcels = pack([piece("a", 2), piece("b", 2, "float64"), piece("c", 2)], ps=0)
    assert {parcel.dtype: [p.variable for p in parcel.slices] for parcel in parcels} == {
        "float32": ["a", "c"],
        "float64": ["b"],
    }


def test_no_slices_make_no_parcel():
    assert pack([], ps=0) == []


@given(PIECES)
def test_exactly_one_parcel_of_a_push_carries_the_number_of_examples(pieces):
    parcels = pack(pieces, ps=2)
    marked = with_header(parcels, ps=2, size=HEADER_SIZE)
    (header,) = [parcel for parcel in marked if parcel.header]
    assert header.dtype == "float32"
    assert header.header == HEADER_SIZE
    assert header.sizes[-1] == HEADER_SIZE
    assert header.length == sum(p.size for p in header.slices) + HEADER_SIZE
    assert header.ps == 2
    assert [slices for slices in names(marked) if slices] == names(parcels)
    assert all(p.bytes < ALONE_BYTES for p in header.slices)


def test_the_header_joins_the_first_small_float32_parcel():
    parcels = pack([piece("large", FLOATS_ALONE), piece("a", 3), piece("d", 3, "float64")], ps=0)
    marked = with_header(parcels, ps=0, size=HEADER_SIZE)
    assert len(marked) == len(parcels)
    assert [[p.variable for p in parcel.slices] for parcel in marked if parcel.header] == [["a"]]


def test_a_large_slice_is_not_copied_for_the_header():
    marked = with_header(pack([piece("large", FLOATS_ALONE)], ps=0), ps=0, size=HEADER_SIZE)
    assert [(slices, parcel.header) for slices, parcel in zip(names(marked), marked, strict=True)] == [
        (["large"], 0),
        ([], HEADER_SIZE),
    ]


def test_a_push_without_float32_has_a_parcel_for_the_header_alone():
    marked = with_header(pack([piece("d", 3, "float64")], ps=1), ps=1, size=HEADER_SIZE)
    assert [(parcel.dtype, parcel.length, parcel.header) for parcel in marked] == [
        ("float64", 3, 0),
        ("float32", HEADER_SIZE, HEADER_SIZE),
    ]


def test_a_push_without_gradients_still_counts_its_examples():
    (parcel,) = with_header([], ps=0, size=HEADER_SIZE)
    assert (parcel.dtype, parcel.length, parcel.header, parcel.slices) == ("float32", HEADER_SIZE, HEADER_SIZE, ())


def test_marking_leaves_the_unmarked_parcels_as_they_were():
    parcels = pack([piece("a", 3)], ps=0)
    with_header(parcels, ps=0, size=HEADER_SIZE)
    assert not parcels[0].header
