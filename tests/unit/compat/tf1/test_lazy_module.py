"""Modules of the facade are modules like others to Python: pydoc, importlib, inspect, pickle, copy, `vars`, `dir`."""

from __future__ import annotations

import types

import pytest

from ps_train.compat.tf1.lazy_module import LazyModule, own_names
from tests.unit.compat.tf1.test_facade import output_of


class Numbers(LazyModule):
    """A module that counts how often a name is looked for."""

    found = 0

    def find(self, name):
        Numbers.found += 1
        if not name.startswith("n"):
            raise AttributeError(name)
        return int(name[1:])

    def listed(self):
        return ["n1", "n2", "missing", "__doc__"]


def test_names_are_found_when_they_are_used():
    module = Numbers("numbers", {"own": 0}, "Some numbers.")
    assert (module.n3, module.own, module.__doc__, hasattr(module, "x"), hasattr(module, "__all__")) == (
        3, 0, "Some numbers.", False, False,
    )  # fmt: skip
    assert "n1" not in own_names(module) and {"own", "n1", "n2"} <= set(dir(module))
    before = Numbers.found
    assert {name: value for name, value in vars(module).items() if name[0] in "no"} == {"own": 0, "n1": 1, "n2": 2}
    assert module.__dict__["n2"] == 2 and Numbers.found == before + 3  # once each, not at every look


def test_it_has_the_file_and_the_place_of_the_module_that_it_stands_for():
    module = Numbers("numbers", {}, like=types)
    assert module.__file__ == types.__file__ and repr(module) == f"<module 'numbers' from {types.__file__!r}>"
    assert repr(Numbers("numbers", {})) == "<module 'numbers' (ps_train)>"
    assert module.__spec__.name == module.__package__ == "numbers"


TOOLS = """
import copy, importlib, importlib.util, inspect, pickle, pkgutil, pydoc, sys, unittest.mock
import tensorflow as tf
import tensorflow.compat.v1
import tensorflow.contrib.layers
from tensorflow.python.estimator import run_config
from tensorflow.python.keras import layers as keras_layers

find = importlib.util.find_spec
assert pydoc.locate("tensorflow.nn.relu") is tf.nn.relu and pydoc.locate("tensorflow.nn") is tf.nn
assert pydoc.locate("tensorflow.contrib.layers.l2_regularizer") is tf.contrib.layers.l2_regularizer
assert pydoc.locate("tensorflow.compat.v1.train.AdamOptimizer") is tf.train.AdamOptimizer
assert pydoc.locate("tensorflow.python.estimator.run_config.RunConfig") is tf.estimator.RunConfig
ABSENT = ["tensorflow.nn.no_such", "tensorflow.contrib.no_such", "tensorflow.contrib.layers.no_such", "tensorflow.no_such",
          "tensorflow.python.no_such", "tensorflow.python.estimator.no_such", "tensorflow.examples.no_such",
          "tensorflow.python.keras.no_such", "tensorflow_estimator.python.estimator.keras_lib", "tensorflow.keras.no_such"]
for name in ABSENT:
    assert pydoc.locate(name) is None, name
    assert find(name) is None, name
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name and "\\n" not in str(error) and len(str(error)) > 60, (name, error)
    else:
        raise AssertionError(name)
    package, _, attribute = name.rpartition(".")
    try:
        exec(f"from {package} import {attribute}")
    except ModuleNotFoundError:
        raise AssertionError(name)
    except ImportError as error:
        assert error.name == package and len(str(error)) > 60, (name, error)
try:
    import tensorflow.nn.relu
except ModuleNotFoundError as error:
    assert str(error) == "tensorflow.nn.relu is not a module: write `from tensorflow.nn import relu`."
for name in ["tensorflow", "tensorflow.nn", "tensorflow.nn.rnn_cell", "tensorflow.contrib", "tensorflow.contrib.layers",
             "tensorflow.compat", "tensorflow.compat.v1", "tensorflow.train", "tensorflow.keras.layers", "tensorflow.layers",
             "tensorflow.python.estimator.run_config", "tensorflow.examples.tutorials.mnist.input_data", "tensorflow.logging"]:
    module = importlib.import_module(name)
    assert find(name) is not None and sys.modules[name] is module, name
    for kept in (module, {"module": [module]}):
        assert pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept) == copy.copy(kept) == kept, name
    assert repr(module).startswith("<module 'tensorflow") and inspect.ismodule(module), name
    assert vars(module) is module.__dict__ and set(vars(module)) <= set(dir(module)), name
    members = dict(inspect.getmembers(module))
    assert len(members) > 5 and all(getattr(module, each) is members[each] for each in list(members)[:20]), name
    scope = {}
    exec(f"from {name} import *", scope)
    assert {each for each in scope if not each.startswith("_")} <= set(dir(module)) and len(scope) > 1, name
    assert importlib.reload(module) is module, name
    assert pydoc.render_doc(module, renderer=pydoc.plaintext).startswith("Python Library Documentation"), name
assert "INFO" in vars(tf.logging) and tf.logging.__dict__["INFO"] == 20 and "relu" in tf.nn.__dict__
assert tf.__git_version__ == tf.version.GIT_VERSION and tf.__version__ == tf.VERSION and tf.__compiler_version__
assert "placeholder" in vars(tf) and "relu" in dir(tf.nn) and "dense" in vars(tf.layers)
assert "def " in inspect.getsource(tf.nn.relu) and "class " in inspect.getsource(tf.train.SyncReplicasOptimizer)
assert inspect.getmodule(tf.estimator.RunConfig).__name__.startswith("ps_train.")
assert inspect.getmodule(tf.nn.relu).__name__.startswith("tensorflow.python.")
assert inspect.getfile(tf.nn) == tf.nn.__file__ and "import" in inspect.getsource(tf.nn)
with unittest.mock.patch("tensorflow.nn.relu", 3), unittest.mock.patch.object(tf.logging, "info", 4):
    assert (tf.nn.relu, tf.logging.info) == (3, 4)
assert callable(tf.nn.relu) and callable(tf.logging.info)
assert pkgutil.resolve_name("tensorflow.nn:relu") is pkgutil.resolve_name("tensorflow.nn.relu") is tf.nn.relu
list(pkgutil.iter_modules(tf.contrib.__path__))
"""  # noqa: E501


@pytest.mark.timeout(200)
def test_every_tool_of_python_takes_the_facade_s_modules(tmp_path):
    assert output_of(TOOLS, tmp_path) == []


HELD = """
import inspect, pickle, sys
from ps_train.compat.tf1.lazy_module import LazyModule
import tensorflow as tf
import tensorflow.python.estimator.run_config
wrong, seen = [], [tf]
def look(module):
    for name, value in vars(module).items():
        if inspect.ismodule(value):
            if isinstance(value, LazyModule) and value not in seen and "keras" not in value.__name__:
                seen.append(value)
                look(value)
        elif callable(value) and (getattr(value, "__module__", None) or "").startswith("ps_train."):
            try:
                assert pickle.loads(pickle.dumps(value)) is value
            except Exception as error:
                wrong.append(f"{module.__name__}.{name}: {error!r}"[:150])
look(tf)
print(wrong)
"""


def test_functions_and_classes_of_the_facade_can_be_pickled(tmp_path):
    assert output_of(HELD, tmp_path) == ["[]"]


TODAY = """
import tensorflow as tf
for name in ("random.set_seed", "distribute.MultiWorkerMirroredStrategy", "distribute.experimental.partitioners",
             "summary.create_file_writer", "losses.SparseCategoricalCrossentropy", "keras.losses.Reduction",
             "function", "GradientTape", "io.gfile.GFile", "nn.gelu", "metrics.AUC", "data.experimental.AUTOTUNE",
             "train.experimental", "math.reduce_sum", "saved_model.contains_saved_model", "image.ResizeMethod"):
    value = tf
    for part in name.split("."):
        value = getattr(value, part)
assert tf.metrics.auc.__module__.endswith("metrics_impl") and tf.summary.scalar is tf.compat.v1.summary.scalar
tf.random.set_seed(7)
with tf.Session() as session:
    first = session.run(tf.random.uniform([3]))
tf.reset_default_graph()
tf.random.set_seed(7)
with tf.Session() as session:
    assert (session.run(tf.random.uniform([3])) == first).all()
"""


def test_names_that_only_tensorflow_2_has_are_there_in_namespaces_too(tmp_path):
    assert output_of(TODAY, tmp_path) == []
