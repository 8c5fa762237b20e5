"""The TensorFlow that a program was written for, found in its text.

    kind = kind_of(script_texts("train.py"))
    kind.trains_by_fit          # its strategies and its fit are given to ps_train
    kind.has_coordinator        # one task, the chief, sends the others what they do

A program of TensorFlow 1 builds graphs, and needs `--compat`.  A program of `tf.distribute` needs eager execution,
which `--compat` disables.  Standard library only, since the launcher uses it.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence

from ps_train.base.errors import ConfigError

_DISTRIBUTE = re.compile(r"tensorflow(\.compat\.v2)?\.distribute\.(experimental\.)?(\w+Strategy|coordinator)\b")
_SERVER = re.compile(r"tensorflow(\.compat\.v2)?\.distribute\.Server\b")
_KERAS = re.compile(r"(tensorflow(\.compat\.v2)?\.)?keras\b")
_GRAPHS = re.compile(
    r"tensorflow\.(app|contrib|estimator|get_variable|gfile|global_variables_initializer|layers|logging|placeholder"
    r"|Session|train\.(Server|Supervisor|MonitoredTrainingSession|SyncReplicasOptimizer|replica_device_setter))\b"
    r"|tensorflow\.compat\.v1\.(disable_eager_execution|disable_v2_behavior|placeholder|Session"
    r"|train\.(Server|Supervisor|MonitoredTrainingSession))\b"
)


@dataclasses.dataclass(frozen=True)
class ProgramKind:
    """What a program uses.

    Attributes:
      strategy: the first strategy of `tf.distribute` that it names, as `tf.distribute.MirroredStrategy`; "" for none.
      is_of_graphs: whether it names what TensorFlow 1 alone has.
      trains_by_fit: whether it makes variables in a strategy's scope; or, if it is not of graphs, has a strategy or
        calls the `fit` of a Keras model.
      has_coordinator: whether its ps and workers only serve, and one further task calls `fit`.
    """

    strategy: str = ""
    is_of_graphs: bool = False
    trains_by_fit: bool = False
    has_coordinator: bool = False

    def refuse_graphs(self, script: str) -> None:
        """Raises ConfigError for a program of `tf.distribute` that was started with `--compat`."""
        if self.strategy and not self.is_of_graphs:
            raise ConfigError(
                f"{script} uses {self.strategy}, which needs eager execution, and --compat gives it the graphs of "
                "TensorFlow 1: leave out --compat."
            )


def kind_of(texts: Sequence[str]) -> ProgramKind:
    """Returns what a program uses.

    Args:
      texts: of the program's script and modules.
    """
    names = [name for text in texts for name in _names(text)]
    strategy = next((name for name in names if _DISTRIBUTE.match(name)), "")
    is_of_graphs = any(_GRAPHS.match(name) for name in names)
    calls_fit = any(_KERAS.match(name) for name in names) and any(".fit(" in text for text in texts)
    has_scope = bool(strategy) and any(".scope(" in text for text in texts)
    trains_by_fit = has_scope or (not is_of_graphs and bool(strategy or calls_fit))
    is_served = "ParameterServerStrategy" in strategy or any("ParameterServerStrategy" in name for name in names)
    return ProgramKind(
        strategy=re.sub(r"^tensorflow(\.compat\.v2)?", "tf", strategy),
        is_of_graphs=is_of_graphs,
        trains_by_fit=trains_by_fit,
        has_coordinator=trains_by_fit and is_served and any(_SERVER.match(name) for name in names),
    )


def _names(text: str) -> Iterator[str]:
    """Yields the dotted names of a text, each with the module that its first part was imported from."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return
    modules: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                modules[alias.asname or first] = alias.name if alias.asname else first
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
            first, _, rest = dotted.partition(".")
            if first in modules:
                yield f"{modules[first]}.{rest}"


def _dotted(node: ast.expr) -> str:
    """Returns `a.b.c` of an expression; "" for another one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""
