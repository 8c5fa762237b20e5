"""Runs a peer's test file in this process under what `--compat` installs: `… -m tests.trials.peers.suite FILE OUT`.

It writes a line of JSON to OUT at the beginning and the end of each test: the name, and then the outcome with the
error.  Texts of exceptions are not compared, since ps_train has its own.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import pathlib
import random
import signal
import sys
import traceback
import types
import unittest
from collections.abc import Iterator
from typing import Any

_TEST_SECS = 300
_FOLDERS = {"tensorflow.python.training": "tensorflow/python/training"}
"""Packages whose modules for tests are in the folder of the peer alone."""


_NEW_HOMES = (
    "framework.indexed_slices",
    "framework.tensor",
    "ops.cond",
    "ops.control_flow_assert",
    "ops.ref_variable",
    "ops.variable_v1",
    "ops.while_loop",
)
"""Modules of `tensorflow.python` to which names have moved that no public module has."""


_MOVED = {
    "tensorflow.python.training.tracking.base": "tensorflow.python.trackable.base",
    "tensorflow.python.training.tracking.tracking": "tensorflow.python.trackable.autotrackable",
    "tensorflow.python.training.tracking.util": "tensorflow.python.checkpoint.checkpoint",
}
"""Modules that only tests import, under their new names."""


class _TooLongError(Exception):
    """A test has not ended in time."""


class _Result(unittest.TestResult):
    """The outcomes, written as they come.

    Args:
      file: the open file.
    """

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self._outcome, self._error = file, "right", ""

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._outcome, self._error = "right", ""
        self._write(test=_name(test))
        signal.alarm(_TEST_SECS)

    def stopTest(self, test: Any) -> None:
        signal.alarm(0)
        self._write(test=_name(test), outcome=self._outcome, error=self._error)
        super().stopTest(test)

    def addError(self, test: Any, err: Any) -> None:
        self._fail(err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._fail(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._fail(err)

    def addSkip(self, test: Any, reason: str) -> None:
        self._outcome, self._error = "skipped", reason

    def _fail(self, err: Any) -> None:
        last = traceback.extract_tb(err[2])[-1]
        text = " ".join(str(err[1]).split())[:300]
        self._outcome, self._error = "wrong", f"{err[0].__name__}: {text} ({last.filename}:{last.lineno})"

    def _write(self, **values: str) -> None:
        print(json.dumps(values), file=self._file, flush=True)


def _name(test: Any) -> str:
    return str(test.id()).partition(".")[2]


@contextlib.contextmanager
def _raising(case: Any, error: Any) -> Iterator[Any]:
    with unittest.TestCase.assertRaises(case, error) as context:
        yield context


def _forgive_texts() -> None:
    """Makes the assertions on texts of exceptions, under all names that they had, such on classes alone."""
    import tensorflow as tf

    def raises(case: Any, error: Any, text: Any = None, function: Any = None, *args: Any, **named: Any) -> Any:
        for name in ("msg", "expected_regex", "expected_regexp"):
            named.pop(name, None)
        if function is None:
            return _raising(case, error)
        with _raising(case, error):
            function(*args, **named)
        return None

    def raises_op_error(case: Any, text: Any) -> Any:
        return _raising(case, tf.errors.OpError)

    def raises_with_predicate(case: Any, error: Any, predicate: Any) -> Any:
        return _raising(case, error if isinstance(error, type) else Exception)

    for owner in (unittest.TestCase, tf.test.TestCase):
        for name in ("assertRaisesRegex", "assertRaisesRegexp"):
            setattr(owner, name, raises)
        owner.assertRaisesOpError = raises_op_error
        owner.assertRaisesWithPredicateMatch = raises_with_predicate
    # It would skip the tests of TensorFlow 1, since this TensorFlow calls itself 2.
    test_util = importlib.import_module("tensorflow.python.framework.test_util")
    test_util.run_v1_only = lambda reason, function=None: function if function is not None else lambda given: given
    modes = test_util.run_in_graph_and_eager_modes
    test_util.run_in_graph_and_eager_modes = lambda *given, reset_test=True, **options: modes(*given, **options)
    lost = {"assertItemsEqual": "assertCountEqual", "assertEquals": "assertEqual", "assertNotEquals": "assertNotEqual",
            "assertRegexpMatches": "assertRegex", "assert_": "assertTrue"}  # fmt: skip
    for name, now in lost.items():
        if not hasattr(unittest.TestCase, name):
            setattr(unittest.TestCase, name, getattr(unittest.TestCase, now))


def _give_modules_of_tests(root: pathlib.Path) -> None:
    """Lets a test import the modules for tests that are beside it, and that no package has."""
    for package, folder in _FOLDERS.items():
        if (root / folder).is_dir():
            importlib.import_module(package).__path__.append(str(root / folder))
    util = root / "tensorflow/contrib/testing/python/framework/util_test.py"
    if util.is_file():
        name = "tensorflow.contrib.testing.python.framework"
        parts = name.split(".")
        for length in range(3, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:length]), types.ModuleType(".".join(parts[:length])))
        sys.modules[name].util_test = _loaded(f"{name}.util_test", util)  # type: ignore[attr-defined]


def _give_moved_names(tree: ast.AST) -> None:
    """Puts public names back where a test finds them in private modules; a module that is gone becomes an empty one."""
    import tensorflow as tf

    homes = [tf, tf.train, tf.nn, *(importlib.import_module(f"tensorflow.python.{name}") for name in _NEW_HOMES)]
    modules: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorflow."):
            for alias in node.names:
                modules[alias.asname or alias.name] = _imported(node.module or "", alias.name)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        module, name = modules.get(node.value.id), node.attr
        if isinstance(module, types.ModuleType) and not hasattr(module, node.attr):
            home = next((home for home in homes if hasattr(home, name)), None)
            if home is not None:
                setattr(module, node.attr, getattr(home, name))


def _imported(package: str, name: str) -> Any:
    with contextlib.suppress(ImportError, AttributeError):
        owner = importlib.import_module(package)
        return getattr(owner, name) if hasattr(owner, name) else importlib.import_module(f"{package}.{name}")
    parts = [*package.split("."), name]
    if moved := _MOVED.get(f"{package}.{name}"):
        _imported(package.rpartition(".")[0], package.rpartition(".")[2])
        sys.modules[f"{package}.{name}"] = found = importlib.import_module(moved)
        setattr(sys.modules[package], name, found)
        return found
    for length in range(2, len(parts) + 1):
        whole = ".".join(parts[:length])
        if whole not in sys.modules:
            with contextlib.suppress(ImportError, AttributeError):
                importlib.import_module(whole)
        if whole not in sys.modules:
            sys.modules[whole] = types.ModuleType(whole, "A module that this TensorFlow has not.")
            sys.modules[whole].__path__ = []
            setattr(sys.modules[whole.rpartition(".")[0]], parts[length - 1], sys.modules[whole])
    return sys.modules[".".join(parts)]


def _give_private_names() -> None:
    """Gives the module of Estimators a function with which tests write the events that they read."""
    import tensorflow.compat.v1 as v1

    def write(output_dir: str, dictionary: dict[str, Any], current_global_step: int) -> None:
        values = [v1.Summary.Value(tag=tag, simple_value=float(value)) for tag, value in dictionary.items()]
        writer = v1.summary.FileWriterCache.get(output_dir)
        writer.add_summary(v1.Summary(value=values), current_global_step)
        writer.flush()

    module = importlib.import_module("tensorflow_estimator.python.estimator.estimator")
    vars(module)["_write_dict_to_summary"] = write
    _give_roles()


def _give_roles() -> None:
    """Gives the executor of trainings the method for one process, which tests call with mocks that wrap Estimators."""
    from ps_train.compat.estimator import train_and_evaluate
    from ps_train.compat.estimator.training_executor import TrainingExecutor

    def run_local(executor: Any) -> Any:
        estimator = executor._estimator
        if (wrapped := vars(estimator).get("_mock_wraps")) is not None:
            estimator.model_dir = wrapped.model_dir  # else a mock, which is no path
        return train_and_evaluate._train_locally(
            estimator, executor._train_spec, executor._eval_spec, executor._listener
        )

    TrainingExecutor.run_local = run_local  # type: ignore[attr-defined]


def _loaded(name: str, path: pathlib.Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _stop(signum: int, frame: Any) -> None:
    raise _TooLongError(f"no end in {_TEST_SECS}s")


def main(file: str, out: str) -> int:
    path = pathlib.Path(file).resolve()
    parts = path.parts
    top = next(part for part in ("tensorflow_estimator", "tensorflow") if part in parts)
    root = pathlib.Path(*parts[: len(parts) - 1 - parts[::-1].index(top)])

    from ps_train.compat.tf1 import facade

    facade.install()
    from absl import flags

    flags.FLAGS(["suite"])
    random.seed(1)
    signal.signal(signal.SIGALRM, _stop)
    with open(out, "w") as lines:
        _forgive_texts()
        try:
            _give_modules_of_tests(root)
            _give_private_names()
            _give_moved_names(ast.parse(path.read_text()))
            tests = unittest.defaultTestLoader.loadTestsFromModule(_loaded(path.stem, path))
        except BaseException as error:
            text = " ".join(str(error).split())[:300]
            print(
                json.dumps({"test": "*", "outcome": "cannot run", "error": f"{type(error).__name__}: {text}"}),
                file=lines,
            )
            return 1
        tests.run(_Result(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
