"""Variables of which a model_fn only looks up rows are tables, whatever the function that looks them up."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.programs import LOOKUPS, check, embedding, minimize, program_of

ALWAYS = {"lookup_v1", "sparse", "column", "linear_column"}


@pytest.mark.parametrize("lookup", [name if name in ALWAYS else long(name) for name in LOOKUPS])
@pytest.mark.usual(1)
def test_point_70_a_variable_that_is_looked_up_travels_by_rows(lookup: str) -> None:
    survey = check(program_of(minimize, LOOKUPS[lookup]), 2)
    assert len(survey.looked_up) == 1


def test_point_70_a_variable_that_is_read_whole_too_travels_whole() -> None:
    def both(features: Any) -> tf.Tensor:
        found = embedding()
        return tf.reduce_mean(tf.nn.embedding_lookup(found, features["ids"]), 1) + 0.1 * tf.reduce_sum(found)

    assert check(program_of(minimize, both), 2).looked_up == {}
