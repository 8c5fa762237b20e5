"""The table of verbs: each has a function of the arguments and the console, which is there without TensorFlow."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from ps_train.config.verbs import VERBS


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_a_function_of_the_arguments_and_the_console(name):
    parameters = list(inspect.signature(VERBS[name].load()).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["arguments", "console"]
    assert all(parameter.default is not inspect.Parameter.empty for parameter in parameters[2:])


@pytest.mark.parametrize("name", VERBS)
def test_the_parser_of_a_verb_is_that_of_its_command(name):
    parser = VERBS[name].load_parser()
    assert parser is None or parser.prog == f"python -m ps_train {name}"


def test_no_verb_is_loaded_before_its_use_and_loading_all_imports_no_tensorflow():
    program = "import sys\nfrom ps_train.config.verbs import VERBS\n"
    program += "print([verb.module for verb in VERBS.values() if verb.module in sys.modules])\n"
    program += "for verb in VERBS.values(): verb.load()\n"
    program += "print('tensorflow' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\nFalse False\n", done.stderr
