"""A study as a call: the space as texts, and the result from the study's summary."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import pytest

from ps_train.base.errors import ConfigError, JobFailedError
from ps_train.commands.tuning import call
from ps_train.commands.tuning.reports import SUMMARY
from ps_train.commands.tuning.study import TunedTrial


def texts(space: Any) -> list[str]:
    return call._texts(space, "/tmp/none", "m:Net")


def test_a_space_is_given_as_ranges_lists_or_texts() -> None:
    space = {"learning_rate": "1e-4..1e-1:log", "model_arg.hidden": [16, 32], "elastic": (True, False)}
    assert texts(space) == ["learning_rate=1e-4..1e-1:log", "model_arg.hidden=16,32", "elastic=true,false"]
    assert texts(["a=1..2", "b=3,4"]) == ["a=1..2", "b=3,4"]


def test_values_with_commas_are_quoted() -> None:
    (text,) = texts({"model_arg.layers": ["64,32", "16"]})
    name, _, values = text.partition("=")
    assert name == "model_arg.layers" and values != "64,32,16" and values.endswith(",16")


@pytest.mark.parametrize("space", ["a=1..2", [1, 2], [{"a": 1}]])
def test_another_space_is_refused(space: Any) -> None:
    with pytest.raises(ConfigError, match=r"space=.*tune\(\)"):
        texts(space)


@pytest.mark.parametrize("value", [5, {"a": 1}, None])
def test_a_value_that_is_no_range_and_no_list_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not a range or a list of values"):
        texts({"learning_rate": value})


def summary(tmp_path: pathlib.Path, best: int | None) -> str:
    trials = [TunedTrial(number, "complete", number / 10, 0.0, 100, {"a": number}, (), "") for number in (3, 5)]
    told = {"best": best, "command": "python -m ps_train", "study": "s", "storage": "sqlite:///x"}
    (tmp_path / SUMMARY).write_text(json.dumps({"trials": [*map(dataclasses.asdict, trials)], **told}))
    return str(tmp_path)


def test_the_result_is_that_of_the_summary(tmp_path: pathlib.Path) -> None:
    result = call._result(summary(tmp_path, best=5), storage="")
    assert result.best.number == 5 and [trial.number for trial in result.trials] == [3, 5]
    assert (result.command, result.study, result.storage) == ("python -m ps_train", "s", "sqlite:///x")
    assert call._result(str(tmp_path), storage="redis://y").storage == "redis://y"


def test_a_study_without_a_complete_trial_has_failed(tmp_path: pathlib.Path) -> None:
    with pytest.raises(JobFailedError, match="no trial is complete"):
        call._result(summary(tmp_path, best=None), storage="")
