"""A saved model as a function of arrays."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.tf1.contrib_predictor import from_estimator, from_saved_model
from tests.support.saved.exported_models import write_table_export

TABLE = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_table_export(tmp_path_factory.mktemp("export") / "1", TABLE, 2.0)


def test_a_signature_gives_inputs_and_outputs_by_name(export: str) -> None:
    predict = from_saved_model(export)
    np.testing.assert_array_equal(predict({"id": [3, 0]})["rows"], TABLE[[3, 0]] * 2)
    assert sorted(predict.feed_tensors) == ["id"] and sorted(predict.fetch_tensors) == ["rows"]
    with pytest.raises(ValueError, match="'x' is not an input of the model: use id"):
        predict({"x": [1]})


def test_names_of_tensors_may_be_given(export: str) -> None:
    by_signature = from_saved_model(export)
    names = {"n": by_signature.feed_tensors["id"].name}, {"out": by_signature.fetch_tensors["rows"].name}
    predict = from_saved_model(export, input_names=names[0], output_names=names[1], graph=tf.Graph(), tags="serve")
    np.testing.assert_array_equal(predict({"n": [1]})["out"], TABLE[[1]] * 2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"signature_def_key": "none"}, "signature_def_key='none' is not in .*: use one of .*serving_default"),
        ({"input_names": {"a": "b:0"}}, "give one of"),
        ({"signature_def_key": "a", "signature_def": object()}, "give one of"),
    ],
)
def test_wrong_arguments_are_refused(export: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_saved_model(export, **options)


def test_an_estimator_is_exported_for_it(export: str, tmp_path: pathlib.Path) -> None:
    asked: list[Any] = []

    class Estimator:
        def export_saved_model(self, directory: str, receiver: Any) -> bytes:
            asked.append((directory, receiver))
            return export.encode()

    predict = from_estimator(Estimator(), "receiver", "serving_default")  # type: ignore[arg-type]
    np.testing.assert_array_equal(predict({"id": [2]})["rows"], TABLE[[2]] * 2)
    assert asked[0][1] == "receiver" and not pathlib.Path(asked[0][0]).exists()
