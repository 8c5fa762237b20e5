"""Models that no other process can import, written by one process and read by a new one."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
import threading

import pytest

from ps_train.base.errors import ConfigError, ModelError
from ps_train.commands.launch.sent_model import is_importable, write_model

SOURCE = """
import abc
import functools
import json as text
import numpy as np
import ps_train

SCALE = 3
unrelated = threading_lock

def scaled(x):
    return x * SCALE

class Base(ps_train.Model, abc.ABC):
    kinds = ("a", "b")

    def __init__(self, start):
        self.start = start

    @abc.abstractmethod
    def unrelated(self): ...

class Net(Base):
    "Its docstring."

    def __init__(self, start=1):
        super().__init__(start)
        self.extra = np.arange(3)

    def unrelated(self):
        return [scaled(x) for x in (self.start, 10)]

    def itself(self):
        return type(self) is Net and isinstance(self, Base)

    @property
    def doubled(self):
        return 2 * self.start

    @functools.cached_property
    def cached(self):
        return self.start + 100

    @classmethod
    def made(cls, start):
        return cls(start)

    @staticmethod
    def listed(*values, last=SCALE):
        return text.dumps([*values, last])
"""


def notebook(source=SOURCE):
    """The names of a notebook: its cells are in no file."""
    names = {"__name__": "__main__", "threading_lock": threading.Lock()}
    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(True), "<cell 1>")
    exec(compile(source, "<cell 1>", "exec"), names)
    return names


def in_a_new_process(value, tmp_path, expression):
    """The expression of the value, evaluated in a new process."""
    name = write_model(value, str(tmp_path), {}).partition(":")[2]
    program = (
        f"import sys, json, inspect\nsys.path.append({str(tmp_path)!r})\n"
        f"from ps_train_fit_model import {name} as it\nprint(json.dumps({expression}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("it().unrelated()", [3, 30]),
        ("it(5).start", 5),
        ("it().itself()", True),
        ("it(4).doubled", 8),
        ("[it(4).cached, it.made(7).start]", [104, 7]),
        ("it.listed(1)", "[1, 3]"),
        ("it().extra.tolist()", [0, 1, 2]),
        ("[it.__name__, it.__doc__, list(it.kinds), it.__abstractmethods__ == frozenset()]",
         ["Net", "Its docstring.", ["a", "b"], True]),
        ("[c.co_filename for c in [it.unrelated.__code__, it.made.__code__]]",
         ["<cell 1>", "<cell 1>"]),
        ("inspect.getsource(it.unrelated).strip().splitlines()[0]", "def unrelated(self):"),
    ],
)  # fmt: skip
def test_a_class_of_a_notebook_is_the_same_in_another_process(tmp_path, expression, value):
    assert in_a_new_process(notebook()["Net"], tmp_path, expression) == value


def test_an_instance_keeps_its_values(tmp_path):
    net = notebook()["Net"](6)
    assert in_a_new_process(net, tmp_path, "[it().unrelated(), it().extra.tolist()]") == [[18, 30], [0, 1, 2]]


def test_what_can_be_imported_is_not_copied():
    assert is_importable(json.JSONDecoder) and is_importable(subprocess.run)
    assert not is_importable(notebook()["Net"])


@pytest.mark.parametrize(
    ("source", "culprit"),
    [
        ("lock = threading_lock\nclass It(Model):\n    def f(self): return lock", "lock"),
        ("def inner(): return lock\nlock = threading_lock\nclass It(Model):\n    def f(self): return inner()", "lock"),
        ("class It(Model):\n    lock = threading_lock", "It.lock"),
        ("def f(k):\n    class It(Model):\n        def g(self): return k\n    return It\nIt = f(threading_lock)", "k"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_named_in_one_line(source, culprit, tmp_path):
    with pytest.raises(ModelError) as caught:
        write_model(notebook("from ps_train import Model\n" + source)["It"], str(tmp_path), {})
    message = str(caught.value)
    assert message.startswith("class It cannot be sent")
    assert f"because of {culprit} (" in message
    assert 'fit("module:Class")' in message
    assert "\n" not in message


def test_an_attribute_of_an_instance_that_cannot_be_sent_is_named(tmp_path):
    net = notebook()["Net"]()
    net.lock = threading.Lock()
    with pytest.raises(ModelError, match=r"because of an instance of Net\.lock \(TypeError"):
        write_model(net, str(tmp_path), {})


def test_a_missing_cloudpickle_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ConfigError, match="needs cloudpickle to send class Net") as caught:
        write_model(notebook()["Net"], str(tmp_path), {})
    assert "pip install cloudpickle" in str(caught.value) and "\n" not in str(caught.value)
