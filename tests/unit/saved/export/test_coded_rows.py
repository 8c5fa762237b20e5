"""Codes of rows, by numpy."""

from __future__ import annotations

import numpy as np

from ps_train.saved.export.coded_rows import auc_in, coded


def test_no_number_is_off_by_more_than_half_a_step_of_its_row() -> None:
    chance = np.random.default_rng(0)
    rows = (chance.normal(size=(1000, 16)) * chance.lognormal(0, 3, (1000, 1))).astype(np.float32)
    rows[0], rows[1] = 0, 1e-30
    codes, scale = coded(rows)
    assert codes.dtype == np.int8 and scale.shape == (1000,) and np.abs(codes).max() == 127 and not codes[0].any()
    restored = codes.astype(np.float32) * scale[:, None]
    assert (np.abs(restored - rows) <= np.abs(rows).max(1, keepdims=True) / 254 * (1 + 1e-5)).all()


def test_the_auc_of_a_model_is_found_by_its_name() -> None:
    assert auc_in({"loss": 1, "auc": 1, "my_auc": 2}) == "auc"
    assert auc_in({"loss": 1, "ROC_AUC": 2}) == "ROC_AUC" and auc_in({"accuracy": 1}) is None
