"""Slices are joined into parcels; one parcel of a push carries the number of examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given
from hypothesis import strategies as st

from ps_train.engine.transport.parcels import ALONE_BYTES, PARCEL_BYTES, Parcel, pack, with_header
from ps_train.engine.transport.received_push import HEADER_SIZE
from ps_train.engine.variables.plan import Slice

FLOATS_ALONE = ALONE_BYTES // 4
ITEM_BYTES = {"float32": 4, "float64": 8, "int32": 4}


def piece(name, size, dtype="float32"):
    return Slice(name, 0, 1, 0, (size,), dtype, size * ITEM_BYTES[dtype], ps=0)


def names(parcels):
    return [[p.variable for p in parcel.slices] for parcel in parcels]


def filled(parcel, size):
    """How long it is: whole units of 64 bytes, if it has a slice of such."""
    unit = 64 // ITEM_BYTES[parcel.dtype]
    return math.ceil(size / unit) * unit if any(p.bytes % 64 == 0 for p in parcel.slices) else size


PIECES = st.lists(st.tuples(st.integers(1, 2 * FLOATS_ALONE), st.sampled_from(sorted(ITEM_BYTES))), max_size=30).map(
    lambda drawn: [piece(f"v{number}", size, dtype) for number, (size, dtype) in enumerate(drawn)]
)


@given(PIECES)
def test_every_slice_travels_in_exactly_one_parcel(pieces):
    parcels = pack(pieces, ps=0)
    assert sorted(name for parcel in names(parcels) for name in parcel) == sorted(p.variable for p in pieces)
    assert all(parcel.slices for parcel in parcels)


@given(PIECES)
def test_a_parcel_holds_one_type_and_is_little_longer_than_its_slices(pieces):
    for parcel in pack(pieces, ps=3):
        assert {p.dtype for p in parcel.slices} == {parcel.dtype}
        assert parcel.length == filled(parcel, sum(p.size for p in parcel.slices))
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


def test_slices_that_fill_whole_units_of_memory_come_first_and_the_rest_fills_one():
    pieces = [piece("a", 3), piece("b", 32), piece("c", 640), piece("d", 2), piece("e", 16)]
    (parcel,) = with_header(pack(pieces, ps=0), ps=0, size=HEADER_SIZE)
    assert names([parcel]) == [["b", "c", "e", "a", "d"]]
    assert parcel.sizes == [32, 640, 16, 3, 2, 16 - 3 - 2 - HEADER_SIZE, HEADER_SIZE]
    (parcel,) = pack([piece("a", 3, "float64"), piece("b", 8, "float64")], ps=0)
    assert parcel.sizes == [8, 3, 5]
    (parcel,) = pack([piece("a", 3), piece("b", 8)], ps=0)
    assert parcel.sizes == [3, 8], "nothing is saved where all must be copied"


CASES = [[32, 3, 640, 1, 16], [16, 64], [5, 7], [48], [3]]


@pytest.mark.parametrize("sizes", CASES, ids=str)
@pytest.mark.parametrize("header", [0, HEADER_SIZE])
def test_what_was_joined_is_split_again(sizes: list[int], header: int) -> None:
    pieces = [piece(f"v{number}", size) for number, size in enumerate(sizes)]
    (parcel,) = with_header(pack(pieces, ps=0), ps=0, size=header)
    values = {some.name: np.arange(some.size, dtype=np.float32) + 1000 * n for n, some in enumerate(pieces)}
    last = np.arange(7, 7 + HEADER_SIZE, dtype=np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        vector = parcel.join({name: tf.constant(value) for name, value in values.items()}, last if header else None)
        found = session.run([vector, *parcel.split(vector)][: 3 if header else 2])
    assert found[0].shape == (parcel.length,)
    assert found[1].keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(found[1][name], value)
    if header:
        np.testing.assert_array_equal(found[2], last)
        np.testing.assert_array_equal(found[0][-HEADER_SIZE:], last)


def test_tensorflow_does_not_copy_what_fills_whole_units() -> None:
    def allocated(parcel: Parcel) -> int:
        """Bytes that splitting takes."""
        metadata, options = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        with tf.Graph().as_default(), v1.Session() as session:
            values, _ = parcel.split(v1.placeholder(tf.float32, [parcel.length], "vector"))
            session.run(list(values.values()), {"vector:0": np.zeros(parcel.length)}, options, metadata)
        nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
        return sum(used.total_bytes for node in nodes if "split" in node.node_name for used in node.memory)

    pieces = [piece("w", 64 * 64), piece("b", 10), piece("v", 640)]
    (parcel,) = with_header(pack(pieces, ps=0), ps=0, size=HEADER_SIZE)
    assert 0 < allocated(parcel) <= 256, "the rest only"
    (ragged,) = with_header(pack([piece("w", 64 * 64 - 1), *pieces[1:]], ps=0), ps=0, size=HEADER_SIZE)
    assert allocated(ragged) > 4 * 64 * 63


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
    assert header.length == filled(header, sum(p.size for p in header.slices) + HEADER_SIZE)
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
