"""The public names are listed, can be imported, and are all that documents and models for users import."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
import types

import pytest

import ps_train
from tests.support.documents.public_names import is_public, names_in_source, private

PACKAGE = pathlib.Path(ps_train.__file__).parent
ROOT = PACKAGE.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "flags").iterdir())]
SOURCES = [*sorted((ROOT / "examples").glob("*.py")), *sorted((PACKAGE / "models").glob("*.py"))]
SOURCES += sorted((PACKAGE / "models" / "images").glob("[a-z]*.py"))

DOTTED = re.compile(r"\bps_train(?:\.\w+)+(?::\w+)?")
FROM = re.compile(r"\bfrom (ps_train(?:\.\w+)*) import (\w+(?:, *\w+)*)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def public_modules(module=ps_train):
    """The public modules by name: those that lists name, from `ps_train.__all__` on."""
    found = {module.__name__: module}
    for name in module.__all__:
        if isinstance(value := getattr(module, name), types.ModuleType):
            found |= public_modules(value)
    return found


def names_in_document(text):
    """The dotted names of ps_train in a document: in its text, and in its blocks of Python."""
    found = {match.replace(":", ".") for match in DOTTED.findall(text)}
    for module, names in FROM.findall(text):
        found |= {f"{module}.{name.strip()}" for name in names.split(",")}
    for block in BLOCK.findall(text):
        found |= names_in_source(block)
    return found


def imported_after(code):
    """The modules of ps_train, numpy and TensorFlow that a new interpreter has imported after some code."""
    code += "; print(*[name for name in sys.modules if name.split('.')[0] in ('ps_train', 'numpy', 'tensorflow')])"
    done = subprocess.run([sys.executable, "-c", "import sys; " + code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


MODULES = public_modules()


def test_names_are_found_in_every_form_of_import():
    source = "import ps_train\nimport ps_train.metrics as m\nfrom ps_train import embeddings as e, Model\nimport os\n"
    source += "class A(Model):\n    def f(self):\n        from ps_train.data import criteo\n"
    source += "        return ps_train.Arrays, m.auc(1).b, e.lookup('a'), criteo.reader.Criteo, os.path, self.metrics\n"
    assert names_in_source(source) == {
        "ps_train",
        "ps_train.Arrays",
        "ps_train.Model",
        "ps_train.data.criteo",
        "ps_train.data.criteo.reader",
        "ps_train.data.criteo.reader.Criteo",
        "ps_train.embeddings",
        "ps_train.embeddings.lookup",
        "ps_train.metrics",
        "ps_train.metrics.auc",
    }


def test_what_is_private_is_found_in_every_part_of_a_document():
    text = "A `Stream` (`from ps_train.data import Stream, text_lines`), `--model=ps_train.models.digits:Ditigs`,\n"
    text += "`ps_train.engine.variables.plan`, `ps_train/engine/step/unroll.py`, `ps_train.Model.forward`.\n"
    text += "```python\nfrom ps_train import embeddings\n\nembeddings.look_up('a', ids)\n```\n"
    assert private(names_in_document(text)) == {
        "ps_train.data.text_lines",
        "ps_train.embeddings.look_up",
        "ps_train.models.digits.Ditigs",
        "ps_train.engine.variables.plan",
    }


def test_documents_show_public_names_only():
    found = {path.name: private(names_in_document(path.read_text())) for path in DOCUMENTS}
    assert {name: names for name, names in found.items() if names} == {}


def test_documents_show_the_imports_that_this_test_is_for():
    shown = set().union(*(names_in_document(path.read_text()) for path in DOCUMENTS))
    assert {"ps_train.Model", "ps_train.data.Stream", "ps_train.data.criteo.load"} <= shown
    assert {"ps_train.embeddings.lookup", "ps_train.embeddings.positions_of"} <= shown


def test_models_for_users_import_public_names_only():
    found = {str(path): private(names_in_source(path.read_text())) for path in SOURCES}
    assert {name: names for name, names in found.items() if names} == {}


def test_every_public_name_can_be_imported_and_has_a_docstring():
    for module, found in MODULES.items():
        assert found.__all__ == sorted(set(found.__all__)), module
        for name in found.__all__:
            namespace = {}
            exec(f"from {module} import {name}", namespace)
            value = namespace[name]
            assert value is getattr(found, name)
            is_ours = getattr(value, "__module__", "ps_train").startswith("ps_train")
            assert isinstance(value, str | int) or value.__doc__ or not is_ours, f"{module}.{name}"


def test_a_module_that_no_list_names_is_private():
    assert "ps_train.engine.variables" not in MODULES and "ps_train.data.stream" not in MODULES
    assert not is_public("ps_train.data.stream.Stream")


def test_the_longer_paths_of_names_that_moved_work_as_well():
    from ps_train.data.stream import RandomAccessChunks, Stream, pipeline_error
    from ps_train.modeling.tables.row_order import positions_of

    data, embeddings = MODULES["ps_train.data"], MODULES["ps_train.embeddings"]
    assert (Stream, RandomAccessChunks) == (data.Stream, data.RandomAccessChunks)
    assert (pipeline_error, positions_of) == (data.pipeline_error, embeddings.positions_of)


def test_the_package_is_imported_without_tensorflow():
    assert imported_after("import ps_train; dir(ps_train)") == {
        "ps_train",
        "ps_train.base",
        "ps_train.base.hidden_modules",
    }


def test_data_are_described_without_tensorflow():
    found = imported_after("import ps_train; ps_train.Model, ps_train.data.criteo.load, ps_train.Job")
    assert {"ps_train.modeling.model", "ps_train.data.stream"} <= found
    assert not {name for name in found if name.partition(".")[0] == "tensorflow"}


def test_type_checkers_are_told_where_each_name_is():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    told = {alias.name: node.module for node in block.body for alias in node.names}
    homes = {name: "ps_train" for name in ps_train.__all__ if name not in (*ps_train._HOMES, "__version__", "models")}
    assert told == {**ps_train._HOMES, **homes}


def test_dir_shows_the_public_names():
    assert dir(ps_train) == ps_train.__all__


@pytest.mark.parametrize(("module", "known"), [("ps_train", "Model,"), ("ps_train.models", "criteo,")])
def test_an_unknown_name_is_refused_with_the_public_ones(module, known):
    with pytest.raises(AttributeError) as caught:
        _ = MODULES[module].Modell
    assert "'Modell'" in str(caught.value)
    assert known in str(caught.value)
