"""load_model: how a user's class is found and given its arguments, and what is said when that fails."""

from __future__ import annotations

import itertools
import sys
import textwrap

import pytest

from ps_train.base.errors import ConfigError, ModelError
from ps_train.config.training_fields import OPTIMIZERS
from ps_train.modeling.load_model import ignores_data_dir, load_model
from ps_train.modeling.model import Model, make_optimizer

_numbers = itertools.count()

NET = """
    import ps_train

    class Methods:
        def data(self, split, data_dir): ...
        def forward(self, features, training): ...
        def loss(self, outputs, labels): ...

    class Net(Methods, ps_train.Model):
        def __init__(self, hidden: int = 64, rate: float = 0.5, bias: bool = True, name: str = "net", other=None):
            self.arguments = (hidden, rate, bias, name, other)

    class Other(Net):
        pass

    class Needs(Methods, ps_train.Model):
        def __init__(self, classes: int):
            self.classes = classes

    class Open(Methods, ps_train.Model):
        def __init__(self, **arguments):
            self.arguments = arguments

    class Plain(Methods, ps_train.Model):
        pass

    class Raises(Methods, ps_train.Model):
        def __init__(self):
            raise ZeroDivisionError("of the user")

    class NoModel:
        pass

    number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module of the user's and returns its name."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    written = []

    def write(source=NET, name=None):
        name = name or f"users_model_{next(_numbers)}"
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        written.append(name.partition(".")[0])
        return name

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] in written]:
        del sys.modules[name]


def refusal(path, arguments=None):
    with pytest.raises(ModelError) as caught:
        load_model(path, arguments or {})
    return str(caught.value)


def test_a_model_is_made_with_its_defaults(module):
    model = load_model(f"{module()}:Net", {})
    assert isinstance(model, Model)
    assert model.arguments == (64, 0.5, True, "net", None)


def test_a_model_may_live_in_a_package(module):
    name = module(name=f"users_package_{next(_numbers)}.models.net")
    assert type(load_model(f"{name}:Plain", {})).__name__ == "Plain"


def test_arguments_are_converted_as_the_constructor_annotates_them(module):
    arguments = {"hidden": "32", "rate": "1e-3", "bias": "false", "name": "7", "other": "8"}
    assert load_model(f"{module()}:Net", arguments).arguments == (32, 0.001, False, "7", "8")


def test_annotations_may_be_postponed(module):
    name = module("from __future__ import annotations\n" + textwrap.dedent(NET))
    arguments = {"hidden": "32", "rate": "2", "bias": "no", "name": "7"}
    assert load_model(f"{name}:Net", arguments).arguments == (32, 2.0, False, "7", None)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("1", True), ("yes", True), ("false", False), ("0", False)]
)
def test_a_bool_is_written_in_words_or_digits(module, text, value):
    assert load_model(f"{module()}:Net", {"bias": text}).arguments[2] is value


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("hidden", "many", "int"),
        ("hidden", "1.5", "int"),
        ("hidden", "", "int"),
        ("rate", "fast", "float"),
        ("bias", "maybe", "bool"),
        ("bias", "2", "bool"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_with_name_value_and_type(module, name, text, kind):
    path = f"{module()}:Net"
    message = refusal(path, {name: text})
    assert f"{name}={text}" in message
    assert f"use {kind}" in message
    assert path in message


def test_an_unknown_argument_is_refused_with_the_known_ones(module):
    message = refusal(f"{module()}:Net", {"hiden": "3"})
    assert "hiden" in message
    assert "hidden, rate, bias, name, other" in message


def test_an_argument_of_a_model_that_takes_none_is_refused(module):
    message = refusal(f"{module()}:Plain", {"hidden": "3"})
    assert "hidden" in message
    assert "none" in message


def test_an_argument_that_is_needed_and_not_given_is_refused_with_how_to_give_it(module):
    path = f"{module()}:Needs"
    message = refusal(path)
    assert path in message
    assert "--model_arg=classes=" in message


def test_an_argument_that_is_needed_and_given_is_passed(module):
    assert load_model(f"{module()}:Needs", {"classes": "10"}).classes == 10


def test_a_model_that_takes_any_argument_is_given_them_as_text(module):
    assert load_model(f"{module()}:Open", {"a": "1", "b": "x"}).arguments == {"a": "1", "b": "x"}


def test_a_module_that_does_not_exist_is_refused_with_where_it_was_sought():
    message = refusal("no_such_module_at_all:Net")
    assert "model=no_such_module_at_all:Net" in message
    assert "'no_such_module_at_all'" in message
    assert "working directory" in message


def test_a_missing_module_of_a_package_that_exists_is_refused():
    assert "'ps_train.models.none'" in refusal("ps_train.models.none:Net")


def test_a_class_that_does_not_exist_is_refused_with_the_models_that_do(module):
    name = module()
    message = refusal(f"{name}:Nett")
    assert "'Nett'" in message
    assert "Net, Other, Needs, Open, Plain, Raises" in message
    assert "NoModel" not in message


def test_a_module_without_models_says_so(module):
    message = refusal(f"{module('x = 1')}:Net")
    assert "'Net'" in message
    assert "none" in message


@pytest.mark.parametrize("name", ["NoModel", "number", "ps_train"])
def test_what_is_not_a_model_is_refused(module, name):
    message = refusal(f"{module()}:{name}")
    assert name in message
    assert "ps_train.Model" in message


@pytest.mark.parametrize(
    "path", ["", "module", "module:", ":Net", "module:1Net", "a:b:c", "./module:Net", ".module:Net"]
)
def test_a_path_of_another_form_is_refused_with_the_right_one(path):
    message = refusal(path)
    assert f"model={path}" in message
    assert "package.module:Class" in message


def test_an_exception_of_the_users_constructor_is_told_with_its_place(module):
    message = refusal(f"{module()}:Raises")
    assert "Raises() raised ZeroDivisionError: of the user (" in message
    assert message.endswith(', in __init__: raise ZeroDivisionError("of the user"))')


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("x = 1\nx = x / 0", "ZeroDivisionError: division by zero", "line 2, in <module>: x = x / 0"),
        ("x = 1\nif x\n", "SyntaxError: expected ':'", "line 2: if x"),
        ("if 1:\nx = 2\n", "IndentationError: expected an indented block", "line 2: x = 2"),
        (
            "import math.none",
            "ModuleNotFoundError: No module named 'math.none'",
            "line 1, in <module>: import math.none",
        ),
        ("from math import none", "ImportError: cannot import name 'none'", "in <module>: from math import none"),
        ("import sys\nsys.exit(3)", "SystemExit: 3", "line 2, in <module>: sys.exit(3)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_with_the_users_line(module, source, kind, line):
    name = module(source)
    message = refusal(f"{name}:Net")
    assert message.startswith(f"model={name}:Net cannot be imported: {kind}")
    assert f"{name}.py, {line}" in message or f"{name}.py, line 1, {line}" in message
    assert "\n" not in message


def test_a_missing_import_of_the_users_module_is_named_as_what_is_missing(module):
    message = refusal(f"{module('import library_that_is_not_installed')}:Net")
    assert "No module named 'library_that_is_not_installed'" in message and "line 1" in message


def test_a_missing_import_from_the_users_own_package_is_named_with_the_line_that_needs_it(module):
    package = f"users_package_{next(_numbers)}"
    name = module(f"import {package}.forgotten", name=f"{package}.net")
    message = refusal(f"{name}:Net")
    assert f"No module named '{package}.forgotten'" in message and f"import {package}.forgotten)" in message


def test_an_error_in_a_module_that_the_users_module_imports_shows_the_line_there(module):
    inner = module("def broken(:")
    message = refusal(f"{module(f'import {inner}')}:Net")
    assert f"{inner}.py, line 1: def broken(:" in message


def test_a_module_of_the_working_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    name = f"users_model_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text("from tests.support.models.small import Linear\nclass Net(Linear): pass\n")
    assert type(load_model(f"{name}:Net", {})).__name__ == "Net"
    del sys.modules[name]


@pytest.mark.parametrize(
    "call", [lambda m: m.data("train", ""), lambda m: m.forward(None, True), lambda m: m.loss(None, None)]
)
def test_data_forward_and_loss_must_be_written(call):
    with pytest.raises(NotImplementedError):
        call(Model())


def test_a_model_has_no_metrics_unless_it_says_so():
    assert Model().metrics(None, None) == {}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_that_the_job_allows_can_be_made(name):
    import tensorflow.compat.v1 as v1

    assert isinstance(make_optimizer(name, 0.1), v1.train.Optimizer)


def test_an_unknown_optimizer_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError) as caught:
        make_optimizer("lion", 0.1)
    assert "optimizer=lion" in str(caught.value)
    assert ", ".join(OPTIMIZERS) in str(caught.value)


class TestIgnoresDataDir:
    """The argument is ignored only if no instruction of data() loads it."""

    def test_one_that_is_never_read_is_ignored(self):
        class Ignores(Model):
            def data(self, split, data_dir):
                del data_dir
                return split

        class Named(Model):
            def data(self, split, where):
                return split

        assert ignores_data_dir(Ignores()) and ignores_data_dir(Named())

    def test_one_that_may_be_read_is_not(self):
        class Reads(Model):
            def data(self, split, data_dir):
                return data_dir + split

        class Passes(Reads):
            def data(self, split, data_dir):
                return super().data(split, data_dir)

        class Inherits(Reads):
            pass

        class Closes(Model):
            def data(self, split, data_dir):
                return lambda: data_dir

        class Locals(Model):
            def data(self, split, data_dir):
                return locals()

        class Anything(Model):
            def data(self, *arguments):
                return arguments

        for model in (Reads, Passes, Inherits, Closes, Locals, Anything):
            assert not ignores_data_dir(model()), model
