"""Names of metrics of a part of the test data."""

from __future__ import annotations

from ps_train.config.slice_names import OTHERS, names_of_values, slice_metric, split_slices


def test_names_are_taken_apart_as_they_were_made():
    values = ["de", "", "a/b=c", "x/country=y"]
    named = {slice_metric("auc", "country", value): number for number, value in enumerate(values)}
    whole, slices = split_slices({"auc": 0.5, "loss/country": 2.0, **named}, "country")
    assert whole == {"auc": 0.5, "loss/country": 2.0}
    assert slices == {value: {"auc": number} for number, value in enumerate(values)}
    assert split_slices(named, "") == (named, {})


def test_names_of_values_are_different_and_none_is_that_of_the_rest():
    values = [b"(others)", b"de", b"\xff", b"\\xff", b"a", b"a\0", b"a\\x00", "é".encode(), b"(others)'", b""]
    names = names_of_values(values)
    assert len(set(names)) == len(values) and OTHERS not in names
    assert names[:4] == ["(others)'", "de", "\\xff", "\\xff'"] and names[5] == "a\\x00" and names[7] == "é"
