"""Pickles of code that no other process can import, read by a new process."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
import threading

import pytest

from ps_train.base.errors import ModelError
from ps_train.commands.launch.by_value import dumps, is_importable

SOURCE = """
import abc
import dataclasses
import functools
import json as text
import numpy as np

SCALE = 3
unrelated = threading_lock

def scaled(x):
    return x * SCALE

class Base(abc.ABC):
    kinds = ("a", "b")

    def __init__(self, start):
        self.start = start

    @abc.abstractmethod
    def unrelated(self): ...

class Net(Base):
    "Its docstring."
    __slots__ = ("extra",)

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

def make_counter():
    count = 0
    def counter():
        nonlocal count
        count += 1
        return count
    return counter

counter = make_counter()

@dataclasses.dataclass
class Sizes:
    width: int = 3
    names: list = dataclasses.field(default_factory=list, metadata={"help": "names"})
"""


def notebook(source=SOURCE):
    """The names of a notebook: its cells are in no file."""
    names = {"__name__": "__main__", "threading_lock": threading.Lock()}
    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(True), "<cell 1>")
    exec(compile(source, "<cell 1>", "exec"), names)
    return names


def in_a_new_process(value, tmp_path, expression):
    """The expression of the value, evaluated in a new process."""
    path = tmp_path / "value.pickle"
    path.write_bytes(dumps(value, "it"))
    program = (
        "import sys, json, inspect\nfrom ps_train.commands.launch.by_value import loads\n"
        f"it = loads(open({str(path)!r}, 'rb').read())\nprint(json.dumps({expression}))"
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
        ("inspect.getsource(it.unrelated).strip().splitlines()[0]", "def unrelated(self):"),
    ],
)  # fmt: skip
def test_a_class_of_a_notebook_is_the_same_in_another_process(tmp_path, expression, value):
    assert in_a_new_process(notebook()["Net"], tmp_path, expression) == value


def test_an_instance_keeps_its_values(tmp_path):
    net = notebook()["Net"](6)
    assert in_a_new_process(net, tmp_path, "[it.unrelated(), it.extra.tolist()]") == [[18, 30], [0, 1, 2]]


def test_a_closure_and_a_class_inside_a_function_keep_what_they_refer_to(tmp_path):
    assert in_a_new_process(notebook()["counter"], tmp_path, "[it(), it()]") == [1, 2]
    offset = 40

    class Local:
        def value(self):
            return offset + 2

    assert in_a_new_process(Local, tmp_path, "it().value()") == 42


def test_a_dataclass_stays_one(tmp_path):
    expression = "__import__('dataclasses').asdict(it(names=[1]))"
    assert in_a_new_process(notebook()["Sizes"], tmp_path, expression) == {"width": 3, "names": [1]}


def test_what_can_be_imported_is_not_copied():
    assert is_importable(json.JSONDecoder) and is_importable(subprocess.run)
    assert not is_importable(notebook()["Net"])
    assert len(dumps(json.JSONDecoder, "it")) < 100


@pytest.mark.parametrize(
    ("source", "culprit"),
    [
        ("lock = threading_lock\nclass It:\n    def f(self): return lock", "lock"),
        ("def inner(): return lock\nlock = threading_lock\nclass It:\n    def f(self): return inner()", "lock"),
        ("class It:\n    lock = threading_lock", "It.lock"),
        ("import enum\nclass Kind(enum.Enum):\n    A = 1\nclass It:\n    def f(self): return Kind.A", "Kind"),
        ("def f(k):\n    class It:\n        def g(self): return k\n    return It\nIt = f(threading_lock)", "k"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_named_in_one_line(source, culprit):
    with pytest.raises(ModelError) as caught:
        dumps(notebook(source)["It"], "class It")
    message = str(caught.value)
    assert message.startswith("class It cannot be sent")
    assert f"because of {culprit} (" in message
    assert 'fit("module:Class")' in message
    assert "\n" not in message


def test_an_attribute_of_an_instance_that_cannot_be_sent_is_named():
    net = notebook()["Net"]()
    net.lock = threading.Lock()
    with pytest.raises(ModelError, match=r"because of net\.lock \(TypeError"):
        dumps(net, "net")
