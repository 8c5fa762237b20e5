"""Names of tf.estimator.experimental that are there, and those that another package has."""

from __future__ import annotations

import types

import pytest

from ps_train.compat.estimator import experimental


def test_all_names_are_there() -> None:
    assert all(callable(getattr(experimental, name)) for name in experimental.__all__)


def test_another_name_is_refused_with_what_to_do() -> None:
    with pytest.raises(AttributeError, match=r"experimental\.no_such is not there: use another name of its __all__"):
        _ = experimental.no_such


def test_functions_of_the_package_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experimental, "_missing_for", lambda name: f"{name} needs the package")
    with pytest.raises(AttributeError, match=r"experimental\.call_logit_fn needs the package"):
        _ = experimental.call_logit_fn
    asked: list[str] = []

    def module(name: str) -> types.SimpleNamespace:
        asked.append(name)
        return types.SimpleNamespace(dnn_logit_fn_builder="the function")

    monkeypatch.setattr(experimental, "_missing_for", lambda name: "")
    monkeypatch.setattr(experimental, "_package_module", module)
    assert experimental.dnn_logit_fn_builder == "the function" and asked == ["canned.dnn"]
