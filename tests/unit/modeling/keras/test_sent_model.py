"""Flags that are not possible with a traced Keras model."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.modeling.keras.sent_model import TracedKerasModel
from ps_train.modeling.load_model import use_flags


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"rack": "a", "update": "sync"}, "leave the racks out"),
        ({"towers": "2"}, "use more workers"),
        ({"warm_start": "runs/1"}, r"ps_train\.keras\.load"),
        ({"export_dir": "exported"}, r"model\.export"),
    ],
)
def test_a_flag_that_is_not_possible_is_refused_with_advice(fields: dict[str, str], advice: str) -> None:
    model = object.__new__(TracedKerasModel)
    with pytest.raises(ConfigError, match=f"{next(iter(fields))}.*is not possible with TracedKerasModel: .*{advice}"):
        use_flags(model, Job(**fields))
