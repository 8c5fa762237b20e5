"""The front of the trials: names, modules and help."""

from __future__ import annotations

import ast
import importlib.util
import pathlib

import pytest

from tests.trials.__main__ import TRIALS, main


@pytest.mark.parametrize("name", TRIALS)
def test_each_trial_is_a_module_whose_main_takes_arguments(name: str) -> None:
    spec = importlib.util.find_spec(f"tests.trials.{TRIALS[name][0]}")
    assert spec is not None and spec.origin is not None
    text = pathlib.Path(spec.origin).read_text()
    mains = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef) and each.name == "main"]
    assert [[argument.arg for argument in each.args.args] for each in mains] == [["arguments"]]
    assert f'prog="python -m tests.trials {name}"' in text and len(TRIALS[name][1]) < 100


def test_help_has_a_line_for_each_trial(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main([]) == 0
    shown = capsys.readouterr().out.splitlines()
    for name, (_, line) in TRIALS.items():
        assert sum(each.split() == [name, *line.split()] for each in shown) == 2


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storm"]) == 2
    assert "there is no trial 'storm'" in capsys.readouterr().err and "storms" in TRIALS
