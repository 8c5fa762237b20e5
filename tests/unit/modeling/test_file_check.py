"""Checks of the model's file without its import; they agree with what the import finds."""

from __future__ import annotations

import itertools
import sys
import textwrap

import pytest

from ps_train.base.errors import ModelError
from ps_train.modeling.file_check import check_model_file
from ps_train.modeling.load_model import load_model

_numbers = itertools.count()

NET = """
    import ps_train
    import ps_train as alias
    from ps_train import Model
    from collections import OrderedDict

    class Net(ps_train.Model):
        def __init__(self, hidden: int = 64, rate: "float" = 0.5, *, bias: bool = True, name=None):
            pass

    class Inherits(Net): pass
    class Plain(ps_train.Model): pass
    class Renamed(alias.Model): pass
    class Named(Model): pass
    class Open(Model):
        def __init__(self, **arguments): pass
    class Needs(Model):
        def __init__(self, classes: int): pass
    class NoModel: pass
    if True:
        class Nested(Model): pass
    Same = Net
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("ps_train.modeling.load_model.check_methods", lambda model: None)  # the classes have none
    written = []

    def write(source=NET):
        name = f"users_file_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def refusal(path, arguments=None, sources=None):
    with pytest.raises(ModelError) as caught:
        check_model_file(path, arguments or {}, sources or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Net", {}),
        ("Net", {"hidden": "7", "rate": "1e-3", "bias": "no", "name": "x"}),
        ("Inherits", {"hidden": "7"}),
        ("Plain", {}),
        ("Renamed", {}),
        ("Named", {}),
        ("Open", {"anything": "x"}),
        ("Needs", {"classes": "3"}),
        ("Nested", {}),
        ("Same", {"hidden": "7"}),
    ],
)
def test_what_the_import_accepts_is_accepted(write, name, arguments):
    path = f"{write()}:{name}"
    check_model_file(path, arguments, {})
    load_model(path, arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Net", {"hiden": "7"}),
        ("Net", {"hidden": "many"}),
        ("Net", {"rate": "fast"}),
        ("Net", {"bias": "maybe"}),
        ("Inherits", {"hidden": "1.5"}),
        ("Plain", {"hidden": "7"}),
        ("Renamed", {"hidden": "7"}),
        ("Named", {"hidden": "7"}),
        ("Needs", {}),
        ("NoModel", {}),
    ],
)
def test_what_the_import_refuses_is_refused_with_the_same_words(write, name, arguments):
    path = f"{write()}:{name}"
    message = refusal(path, arguments)
    with pytest.raises(ModelError) as caught:
        load_model(path, arguments)
    assert message == str(caught.value)


def test_a_class_that_does_not_exist_is_refused_with_the_models_that_do(write):
    message = refusal(f"{write()}:Nett")
    assert "has no 'Nett'; its models: Net, Inherits, Plain" in message
    assert "NoModel" not in message


@pytest.mark.parametrize("source", ["from os.path import *", "def __getattr__(name): ...", "globals()['Net'] = 1"])
def test_names_that_only_the_import_knows_are_left_to_it(write, source):
    check_model_file(f"{write(source)}:Net", {}, {})


@pytest.mark.parametrize(
    "source",
    [
        "import ps_train\n@dataclass\nclass Net(ps_train.Model): pass",
        "from elsewhere import Base\nclass Net(Base): pass",
        "import ps_train\nclass Net(ps_train.Model):\n    def __new__(cls, *a, **b): ...",
        "import ps_train\nclass Net(ps_train.Model, metaclass=M): pass",
        "def make(): ...\nNet = make()",
    ],
)
def test_constructors_that_only_the_import_knows_are_left_to_it(write, source):
    check_model_file(f"{write(source)}:Net", {"hidden": "7"}, {})


def test_a_syntax_error_is_refused_with_its_file_line_and_text(write, tmp_path):
    name = write("import ps_train\n\nclass Net(ps_train.Model)\n    pass\n")
    message = refusal(f"{name}:Net")
    assert f"model={name}:Net cannot be imported: SyntaxError: " in message and f"{name}.py, line 3: " in message
    assert "class Net(ps_train.Model)" in message


def test_a_file_of_another_encoding_is_refused(tmp_path, write):
    name = write("")
    (tmp_path / f"{name}.py").write_bytes(b"x = '\xff'\n")
    assert f"{tmp_path / name}.py" in refusal(f"{name}:Net")


@pytest.mark.parametrize(
    ("path", "missing"),
    [("no_such_module:Net", "no_such_module"), ("json.none:Net", "json.none"), ("json.tool.x:Net", "json.tool.x")],
)
def test_a_module_that_does_not_exist_is_refused(path, missing):
    assert f"model={path}: there is no module '{missing}'" in refusal(path)


def test_the_path_of_a_file_is_refused_with_the_name_of_its_module():
    assert "use the name of the module, --model=models.net:Net" in refusal("./models/net.py:Net")
    assert "use the name of the module, --model=models.net:Net" in refusal("./models/net:Net")


def test_the_source_of_a_model_argument_is_named(write):
    sources = {"hiden=7": "job.flags:3", "hidden=x": "the command line"}
    assert "model_arg hiden (from job.flags:3) is not" in refusal(f"{write()}:Net", {"hiden": "7"}, sources)
    message = refusal(f"{write()}:Net", {"hidden": "x"}, sources)
    assert "model_arg hidden=x (from the command line) is not valid" in message
    assert "a whole number" in message


@pytest.mark.parametrize("name", ["digits:Digits", "mnist:Mlp", "criteo:WideAndDeep", "criteo:DeepFM"])
def test_the_models_that_ship_are_accepted(name):
    check_model_file(f"ps_train.models.{name}", {}, {})


def test_a_model_in_folders_without_code_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("ps_train.modeling.load_model.check_methods", lambda model: None)  # the classes have none
    package = f"users_folder_{next(_numbers)}"
    folder = tmp_path / package / "deep" / "deeper"
    folder.mkdir(parents=True)
    (folder / "net.py").write_text(textwrap.dedent(NET))
    check_model_file(f"{package}.deep.deeper.net:Net", {}, {})
    assert "has no 'Nett'" in refusal(f"{package}.deep.deeper.net:Nett")
    assert f"no module '{package}.deep.none'" in refusal(f"{package}.deep.none.net:Net")
