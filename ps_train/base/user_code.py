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

import ast
import contextlib
import dataclasses
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ps_train.base.errors import ModelError, PsTrainError, cut, headline

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")

_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (.+?)(?:  \*)?$', re.MULTILINE)
"""A frame in a text; AutoGraph marks the frames that it has converted with an asterisk."""

_PYTHON_TRACEBACK, _OF_THE_GRAPH = "Traceback (most recent call last)", "Original stack trace for"
_IN_USER_CODE = "in user code:"

_NODE = re.compile(r"\[\[(?:\{\{function_node [^}]*\}\}\s*)?(?:\{\{node )?([\w./>-]+)")
_COPY, _GRADIENT = re.compile(r"^step_\d+(?:_\d+)?/"), re.compile(r"(?:^|/)gradients(?:_\d+)?/(.+?)_grad/")
"""Names of operations that were made of others: copies of a step (`engine/step/unroll.py`), and gradients."""

_MOST_SOURCE, _MOST_SHOWN, _MOST_NAMES, _MOST_OPS = 80, 60, 3, 1000

_MORE = (" You can attempt the following", " This error may indicate")
"""The begin of more text after the cause, where a tensor was used as a Python value."""

_LONG_LIST = re.compile(r"(allowed values: [^,]*,[^,]*,[^,]*,[^,]*,).{20,}")

_AS_VALUE = {
    "as a Python `bool`": "its value is not known yet: use tf.where or tf.cond, and tf.while_loop for a loop",
    "Iterating over a symbolic": "its values are not known yet: use tf.map_fn or tf.while_loop, or tf.unstack",
    "to a numpy array": "its value is not known yet: use TensorFlow's functions",
    "not 'SymbolicTensor'": "its value is not known yet: use TensorFlow's functions, such as tf.cast",
}
"""Text of an error about a tensor that is used as a Python value, to what helps."""

_DTYPES = (
    re.compile(r"has type (\w+) that does not match type (\w+)"),
    re.compile(r"has DataType (\w+) not in list of allowed values: (.*)"),
    re.compile(r"have types \[(.*?)\] that don't all match"),
    re.compile(r"requested dtype (\w+) for Tensor with dtype (\w+)"),
    re.compile(r"expected to have type (\w+) but got type (\w+)"),
)
"""Texts of errors about dtypes."""

_OF_ANOTHER_GRAPH = ("must be from the same graph", "is out of scope", "Attempting to capture an EagerTensor")

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
        code = cut(self.source, _MOST_SOURCE)
        return f"{_shown(self.path)}, line {self.line}, in {self.function}" + (f": {code}" if code else "")


def describe(error: BaseException) -> str:
    """Returns an error in one line: its type, its first line, the user's frame and the operation made there."""
    text = headline(error)
    if isinstance(error, PsTrainError):
        return text
    for more in _MORE:
        text = text.partition(more)[0]
    text = _LONG_LIST.sub(r"\1 ...", text)
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


class UserCodeError(ModelError):
    """The user's code has raised an exception, which is the cause of this one."""

    page = "models#debug-a-model"


@contextlib.contextmanager
def user_code(what: str, inputs: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Runs the user's code in the body.

    Args:
      what: name of the called method, for the error.
      inputs: the tensors of a batch by name, for errors about them.

    Raises:
      UserCodeError: the code raised an exception, or called sys.exit.  An error of this package passes through, with
        the user's line.
    """
    try:
        yield
    except ModelError as error:
        text, (frames, _) = str(error), _found(error)
        if frames and ", line " not in text:
            error.args = (f"{text.removesuffix('.')} ({frames[-1].place()})",)
        raise
    except PsTrainError:
        raise
    except (Exception, SystemExit) as error:
        if outside := _made_outside(error):
            raise ModelError(f"{what} uses {outside}.") from error
        advice = remedy(error, inputs or {})
        raise UserCodeError(f"{what} raised {describe(error)}" + (f": {advice}." if advice else "")) from error


def remedy(error: BaseException, inputs: Mapping[str, Any]) -> str:
    """Returns what helps against an error of TensorFlow in the user's code; "" if that is not known.

    Args:
      error: as TensorFlow raised it.
      inputs: the tensors of the batch by name: "labels", "feature age".
    """
    text = str(error)
    if outside := _made_outside(error):
        return outside
    return next((advice for part, advice in _AS_VALUE.items() if part in text), "") or _cast(error, text, inputs)


def _cast(error: BaseException, text: str, inputs: Mapping[str, Any]) -> str:
    """Returns the inputs that have a dtype of the error's text, and the cast."""
    found = next(filter(None, (pattern.search(text) for pattern in _DTYPES)), None)
    if found is None:
        return ""
    is_list = "allowed values" in found[0]
    named = found.groups()[:1] if is_list else found.groups()
    dtypes = re.findall(r"\w+", " ".join(named))
    allowed = re.findall(r"\w+", found[2]) if is_list else dtypes
    wrong = {name: value for name, value in inputs.items() if value.dtype.name in dtypes}
    if not is_list:
        wrong = {name: value for name, value in wrong.items() if value.dtype.name != "float32"} or wrong
    if not wrong:
        return ""
    dtype = next(iter(wrong.values())).dtype.name
    words, tensors = _statement_of(error)
    wrong = {
        name: value
        for name, value in wrong.items()
        if name.split()[-1] in words or any(_is_made_of(tensor, value) for tensor in tensors)
    }
    others = [other for other in allowed if other != dtype]
    to = "float32" if "float32" in others or not others else others[-1] if is_list else others[0]
    if not wrong:  # an input of this dtype may have no part in it
        return f"cast one of them with tf.cast(x, tf.{to})" if dtype != "string" else ""
    names = [*wrong][:_MOST_NAMES] + (["..."] if len(wrong) > _MOST_NAMES else [])
    what = f"{', '.join(names)} {'is' if len(wrong) == 1 and not names[0].endswith('s') else 'are'} of {dtype}"
    if dtype == "string":
        return f"{what}: make numbers of the texts, as by ps_train.embeddings.lookup or tf.strings.to_number"
    return f"{what}: cast with tf.cast(x, tf.{to}), or give {to} in data()"


def _statement_of(error: BaseException) -> tuple[set[str], list[Any]]:
    """Returns the words of the user's statement that raised an error, and the tensors that its names stand for."""
    frames, _ = _found(error)
    if not frames:
        return set(), []
    path, line = frames[-1].path, frames[-1].line
    try:
        nodes = [*ast.walk(ast.parse("".join(linecache.getlines(path))))]
    except SyntaxError:
        return set(re.findall(r"\w+", frames[-1].source)), []
    around = [n for n in nodes if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    statement = max(around, key=lambda n: n.lineno, default=None)
    inside = [*ast.walk(statement)] if statement is not None else []
    if getattr(statement, "body", None):  # of a loop or a branch, its first lines alone
        inside = [n for n in inside if getattr(n, "lineno", 0) == line]
    names = {n.id for n in inside if isinstance(n, ast.Name)}
    words = names | {n.attr for n in inside if isinstance(n, ast.Attribute)}
    words |= {n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    codes = [entry.tb_frame for entry in _entries(error)]
    local: Mapping[str, Any] = next((f.f_locals for f in reversed(codes) if f.f_code.co_filename == path), {})
    values = [local[name] for name in names if name in local]
    flat = [one for value in values for one in (value if isinstance(value, list | tuple) else [value])]
    return words, [one for one in flat if _kind_of(one) == "a tensor"]


def _is_made_of(tensor: Any, value: Any) -> bool:
    """Returns whether a tensor is an input, or was computed from it in the same dtype."""
    pending, seen = [tensor], set[int]()
    while pending and len(seen) < _MOST_OPS:
        one = pending.pop()
        if one is value:
            return True
        op = getattr(one, "op", None)
        if op is not None and id(op) not in seen:
            seen.add(id(op))
            pending += [found for found in op.inputs if found.dtype == value.dtype]
    return False


def _made_outside(error: BaseException) -> str:
    """Returns the object that an earlier call or a constructor has made, where, and the rule; "" for other errors."""
    if not any(part in str(error) for part in _OF_ANOTHER_GRAPH):
        return ""
    rule = "make layers, variables and tensors inside, at every call; numpy arrays may be made anywhere"
    frames, _ = _found(error)
    used = f" ({frames[-1].place()})" if frames else ""
    for entry in reversed([entry for entry in _entries(error) if _is_users(entry.tb_frame.f_code.co_filename)]):
        path = entry.tb_frame.f_code.co_filename
        source = linecache.getline(path, entry.tb_lineno)
        lasting = [one for one in _lasting(entry.tb_frame) if _kind_of(one.value)]
        for one in sorted(lasting, key=lambda one: one.name not in source):
            if "Metric" in _bases(one.value):
                rule = "use tf.compat.v1.metrics, at every call, instead of Keras metrics"
            made = _made_at(path, one)
            where = (
                f", made in {_shown(path)}, line {made}: {cut(Frame(path, made, '').source, _MOST_SOURCE)}"
                if made
                else ""
            )
            return f"{one.full_name}, {_kind_of(one.value)} that this call has not made{where}{used}: {rule}"
    return f"a tensor, variable or layer that this call has not made{used}: {rule}"


@dataclasses.dataclass(frozen=True)
class _Lasting:
    """An object that outlives the call of a function.

    Attributes:
      value: the object.
      owner: the name of the object whose attribute it is; "" for a global or an outer variable.
      classes: names of the owner's classes.
    """

    name: str
    value: Any
    owner: str = ""
    classes: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


def _entries(error: BaseException) -> Iterator[Any]:
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _lasting(frame: Any) -> Iterator[_Lasting]:
    """Yields the lasting objects that a function uses."""
    code, local = frame.f_code, frame.f_locals
    for name in code.co_freevars:
        yield _Lasting(name, local.get(name))
    for name in code.co_names:
        if name in frame.f_globals:
            yield _Lasting(name, frame.f_globals[name])
    for owner in (*code.co_varnames[: min(1, code.co_argcount)], *code.co_freevars):
        holder = local.get(owner)
        attributes = {} if _kind_of(holder) else getattr(holder, "__dict__", {})
        for name in code.co_names:
            if name in attributes:
                yield _Lasting(name, attributes[name], owner, tuple(_bases(holder)))


def _bases(value: Any) -> list[str]:
    return [base.__name__ for base in type(value).__mro__]


def _kind_of(value: Any) -> str:
    """Returns the kind of an object that belongs to a graph, or of the first in a list or dict; "" for others."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next(filter(None, map(_kind_of, value)), "")
    bases = _bases(value)
    roots = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    if isinstance(value, type) or not roots & {"tensorflow", "keras", "tf_keras", "ps_train"}:
        return ""
    if any(name in ("Variable", "ModelVariable", "BaseResourceVariable") for name in bases):
        return "a variable"
    if any(name in ("Layer", "Metric", "Optimizer") for name in bases):
        return f"a {type(value).__name__}"
    return "a tensor" if any(name in ("Tensor", "SparseTensor", "RaggedTensor") for name in bases) else ""


def _made_at(path: str, found: _Lasting) -> int:
    """Returns the number of the line of a file that assigns an object to its name; 0 if there is none."""
    try:
        tree: ast.AST = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return 0
    if found.owner:
        classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name in found.classes]
        tree = ast.Module([*classes], []) if classes else tree
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and value.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            attribute = isinstance(target, ast.Attribute) and target.attr
            plain = isinstance(target, ast.Name) and target.id
            if found.name == (attribute if found.owner else plain):
                return int(getattr(target, "lineno", 0))
    return 0


def shown(value: object) -> str:
    """Returns a short text for a value of the wrong type: its type and value in one line."""
    if value is None or isinstance(value, bool):
        return repr(value)
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = ""
    kind = "str" if isinstance(value, str) else type(value).__name__  # the name of an optimizer is one, too
    text = cut(text, _MOST_SHOWN)
    return f"{kind} {text}" if text and not text.startswith(("<", kind)) else text or kind
