"""The user's part of an error: the frames of the user's own code, and the operation that failed.

    with user_code("forward()"):            # an exception becomes a ModelError of one line
        outputs = model.forward(features, True)
    describe(error)         # "KeyError: 'mine' (model.py, line 12, in forward: raise KeyError('mine'))"
    frames_text(error)      # the frames of the user's code, as in a traceback; "" if there are none

Frames of ps_train, of installed packages and of Python's own library are not the user's.  An error of a running graph
has no frame of its own: the frame is the one that made the operation, or one in the error's text.

Standard library only.  TensorFlow's errors are known by their attributes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from ps_train.errors import ModelError, PsTrainError, headline

_OWN = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")

_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+?)(?:  \*)?$', re.MULTILINE)
"""A frame in a text; AutoGraph marks the frames that it has converted with an asterisk."""

_PYTHON_TRACEBACK, _OF_THE_GRAPH = "Traceback (most recent call last)", "Original stack trace for"
_IN_USER_CODE = "in user code:"

_NODE = re.compile(r"\[\[(?:\{\{function_node [^}]*\}\}\s*)?(?:\{\{node )?([\w./>-]+)")
_COPY, _GRADIENT = re.compile(r"^step_\d+(?:_\d+)?/"), re.compile(r"(?:^|/)gradients(?:_\d+)?/(.+?)_grad/")
"""Names of operations that were made of others: copies of a step (`graph/unroll.py`), and gradients."""

_MOST_SOURCE, _MOST_SHOWN = 80, 60

_KERAS_3 = "is not available with Keras 3."
"""What TensorFlow says of `tf.compat.v1.layers` and `tf.compat.v1.nn.rnn_cell`."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A frame of the user's code.

    Attributes:
      path: path of the file.
      line: number of the line.
      function: name of the function.
    """

    path: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """Returns the line of code, "" if its file cannot be read."""
        return linecache.getline(self.path, self.line).strip()

    def place(self) -> str:
        """Returns the frame in one line: `model.py, line 12, in forward: x = tf.gather(a, b)`."""
        code = self.source
        code = code if len(code) <= _MOST_SOURCE else code[: _MOST_SOURCE - 3] + "..."
        return f"{_shown(self.path)}, line {self.line}, in {self.function}" + (f": {code}" if code else "")


def describe(error: BaseException) -> str:
    """Returns an error in one line: its type, its first line, the user's frame and the operation made there."""
    text = headline(error)
    if isinstance(error, PsTrainError):
        return text
    if text.endswith(_KERAS_3):
        text = f"{text[:-1]}: install tf-keras and set TF_USE_LEGACY_KERAS=1"
    frames, op = _found(error)
    made = f', op "{op}"' if op else ""
    return f"{text} ({frames[-1].place()}{made})" if frames else text


def place_of(ops: Sequence[Any]) -> str:
    """Returns where the user's code makes the first of some operations, in brackets after a space; "" if unknown."""
    frames = next(filter(None, map(_frames_of, ops)), [])
    return f" ({frames[-1].place()})" if frames else ""


def frames_text(error: BaseException) -> str:
    """Returns the user's frames of an error as in a traceback, the innermost last; "" if there are none."""
    frames, _ = _found(error)
    entries = [(frame.path, frame.line, frame.function, frame.source) for frame in frames]
    return "".join(traceback.format_list(entries)).rstrip()


def line_of(error: SyntaxError) -> str:
    """Returns the place of a syntax error: file, line and the line of code."""
    place = f"{_shown(error.filename or '?')}, line {error.lineno}"
    return f"{place}: {error.text.strip()}" if error.text and error.text.strip() else place


def _shown(path: str) -> str:
    """Returns a path relative to the working directory if it is inside."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if relative.startswith(os.pardir) else relative


def _is_users(path: str) -> bool:
    full = os.path.abspath(path)
    if path.startswith("<") or full.startswith((os.path.join(_OWN, ""), *_LIBRARIES)):
        return False
    return not any(name in full.split(os.sep) for name in _INSTALLED)


def _found(error: BaseException) -> tuple[list[Frame], str]:
    """Returns the user's frames, and the name of the operation made in the last one ("" if that is not known)."""
    frames = [
        Frame(entry.filename, entry.lineno or 0, entry.name)
        for entry in traceback.extract_tb(error.__traceback__)
        if _is_users(entry.filename)
    ]
    written = _written(str(getattr(error, "message", error)))
    if written:
        return frames + written, ""
    for op in operations_of(error):
        if made_at := _frames_of(op):
            return made_at, op.name.removeprefix("model/")
    return frames, ""


def _frames_of(op: Any) -> list[Frame]:
    """Returns the user's frames that made an operation; an imported operation has no frames."""
    return [
        Frame(frame.filename, frame.lineno, frame.name) for frame in op.traceback or () if _is_users(frame.filename)
    ]


def _written(text: str) -> list[Frame]:
    """Returns the user's frames in the text of an error that Python code raised inside of TensorFlow."""
    text = text.partition(_OF_THE_GRAPH)[0]
    if _PYTHON_TRACEBACK in text:
        text = text.partition(_PYTHON_TRACEBACK)[2]
    elif _IN_USER_CODE not in text:
        return []
    found = [Frame(path, int(line), function) for path, line, function in _FRAME.findall(text)]
    return [frame for frame in found if _is_users(frame.path)]


def operations_of(error: Any) -> Iterator[Any]:
    """Yields the operations that may have caused an error of a graph, the likeliest first."""
    op = getattr(error, "op", None)
    graph = getattr(op, "graph", None) or getattr(error, "graph", None)
    if graph is None or not hasattr(graph, "get_operation_by_name"):
        return
    nodes = _NODE.findall(str(getattr(error, "message", error)))
    for name in _origins(([op.name] if op is not None else []) + nodes[::-1]):
        try:
            yield graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            continue
    yield from _callers(graph, set(nodes))


def _origins(names: Sequence[str]) -> Iterator[str]:
    """Yields names, and the names of the operations that they were made of: TensorFlow appends the parts of a call."""
    for name in names:
        name = _COPY.sub("", name)
        if forward := _GRADIENT.search(name):
            name = forward[1]
        while name:
            yield name
            name = name.rpartition("/")[0]


def _callers(graph: Any, nodes: set[str]) -> Iterator[Any]:
    """Yields the operation that calls the functions with one of the nodes, if the user's code has one such line."""
    functions = graph.as_graph_def().library.function
    holding = {function.signature.name for function in functions if any(n.name in nodes for n in function.node_def)}
    for _ in functions:  # functions that call those, however deep
        holding |= {f.signature.name for f in functions if any(_called_by(node) & holding for node in f.node_def)}
    callers = [op for op in graph.get_operations() if _called_by(op.node_def) & holding and _frames_of(op)]
    if len({_frames_of(op)[-1] for op in callers}) == 1:
        yield callers[0]


def _called_by(node: Any) -> set[str]:
    """Returns the names of the functions that a node calls."""
    attributes = node.attr.values()
    return {a.func.name for a in attributes} | {function.name for a in attributes for function in a.list.func}


@contextlib.contextmanager
def user_code(what: str) -> Iterator[None]:
    """Runs the user's code in the body.

    Args:
      what: name of the called method, for the error.

    Raises:
      ModelError: the code raised an exception, or called sys.exit.  An error of this package passes through.
    """
    try:
        yield
    except PsTrainError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{what} raised {describe(error)}") from error


def shown(value: object) -> str:
    """Returns a short text for a value of the wrong type: its type and value in one line."""
    if value is None or isinstance(value, bool):
        return repr(value)
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = ""
    kind = type(value).__name__
    text = text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
    return f"{kind} {text}" if text and not text.startswith(("<", kind)) else text or kind
