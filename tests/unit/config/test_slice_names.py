"""Names of metrics of a part of the test data."""

from __future__ import annotations

from ps_train.config.slice_names import slice_metric, split_slices


def test_names_are_taken_apart_as_they_were_made():
    values = ["de", "", "a/b=c", "x/country=y"]
    named = {slice_metric("auc", "country", value): number for number, value in enumerate(values)}
    whole, slices = split_slices({"auc": 0.5, "loss/country": 2.0, **named}, "country")
    assert whole == {"auc": 0.5, "loss/country": 2.0}
    assert slices == {value: {"auc": number} for number, value in enumerate(values)}
    assert split_slices(named, "") == (named, {})
