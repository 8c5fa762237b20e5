"""Shares of the test data, which must be shares of the same examples."""

from __future__ import annotations

import pytest

from ps_train.base.errors import DataError
from ps_train.cluster.membership.records import EvalAssignment
from ps_train.data.pipeline import DataSource
from ps_train.data.split import UNKNOWN
from ps_train.training.duties.final_evaluation import check_same_examples


def source_of(count):
    source = DataSource(lambda: None)
    source.count = count
    return source


@pytest.mark.parametrize(("here", "chief"), [(4000, 4000), (UNKNOWN, 4000), (4000, UNKNOWN), (4000, -1)])
def test_a_share_of_the_same_test_data_is_scored(here, chief):
    check_same_examples(source_of(here), EvalAssignment("token", {}, 2, examples=chief))


def test_a_share_of_other_test_data_is_left_to_the_chief():
    with pytest.raises(DataError, match="has 3950 examples here and 4000 at the chief"):
        check_same_examples(source_of(3950), EvalAssignment("token", {}, 2, examples=4000))
