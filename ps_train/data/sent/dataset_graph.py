"""The graph of an eager `tf.data.Dataset`, with which another process, or a graph of TensorFlow 1, makes it again.

    graph = dataset_graph(dataset, seed=7)      # in eager mode
    dataset = imported_dataset(graph)           # in the current graph

The order of its elements is the same wherever the graph is read: a shuffle without a seed gets one, and parallel calls
give their results in order.  A `shuffle` inside of the function of a `flat_map` or `interleave` then gives the same
order in each epoch.  Random numbers in the functions of `map` stay random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data.sent.columns import Column, column_of, read_column

_SEEDED = {
    "AnonymousSeedGenerator": (0, 1),
    "AnonymousRandomSeedGenerator": (0, 1),
    "RandomDataset": (0, 1),
    "RandomDatasetV2": (0, 1),
    "ShuffleDataset": (2, 3),
    "ShuffleDatasetV3": (2, 3),
    "ShuffleAndRepeatDataset": (2, 3),
    "ShuffleAndRepeatDatasetV2": (2, 3),
}
"""Operations with two seeds, and the places of these among their inputs.  Seeds of 0 and 0 are none."""

_NEW_SEED = "ps_train_seed_"
"""Begin of the names of seeds that were not there."""

_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
"""Operations that call a function of the process in which they were made."""

_IGNORE_STATE = 1
"""Policy of `DatasetToGraphV2`: state, such as a generator's, is copied, and is not a reason to fail."""


_LARGE = 1 << 20
"""Bytes of an array that is kept out of the graph, where TensorFlow would copy it several times."""


@dataclasses.dataclass(frozen=True)
class DatasetGraph:
    """The graph of a dataset.

    Attributes:
      graph: GraphDef; its node `_Retval` has the dataset as its input.
      element_spec: that of the dataset.
      columns: large arrays, by the names of the nodes in whose place they are.
    """

    graph: Any
    element_spec: Any
    columns: Mapping[str, Column]

    def calls_python(self) -> bool:
        """Returns True if the graph calls Python functions, which other processes do not have."""
        return any(node.op in _PYTHON for nodes, _ in _functions(self.graph) for node in nodes)

    def write(self, path: str) -> Any:
        """Writes files whose names begin with `path`, and returns a value that can be pickled, for `read`."""
        with open(path + ".graph", "wb") as file:
            file.write(self.graph.SerializeToString())
        for number, column in enumerate(self.columns.values()):
            column.write(f"{path}_{number}")
        return self.element_spec, [(name, column.dtype.name, column.shape) for name, column in self.columns.items()]

    @classmethod
    def read(cls, path: str, state: Any) -> DatasetGraph:
        """Returns the graph that `write` has written; its arrays stay in the files."""
        element_spec, columns = state
        with open(path + ".graph", "rb") as file:
            graph = v1.GraphDef.FromString(file.read())
        found = {
            name: read_column(f"{path}_{number}", tf.dtypes.as_dtype(dtype), shape)
            for number, (name, dtype, shape) in enumerate(columns)
        }
        return cls(graph, element_spec, found)


def dataset_graph(dataset: tf.data.Dataset, seed: int) -> DatasetGraph:
    """Returns the graph of an eager dataset.

    Args:
      dataset: the dataset.
      seed: of the shuffles that have none.

    Raises:
      DataError: the dataset is too large, or has an operation that TensorFlow does not write.
    """
    try:
        variant = tf.data.experimental.to_variant(dataset)
        written = tf.raw_ops.DatasetToGraphV2(
            input_dataset=variant, external_state_policy=_IGNORE_STATE, strip_device_assignment=True
        )
        graph = v1.GraphDef.FromString(written.numpy())
    except Exception as error:  # of TensorFlow, or of protobuf for more than 2 GiB
        cause = " ".join(str(error).split())[:120]
        raise DataError(
            f"the tf.data.Dataset cannot be written as a graph ({cause}): give fit the arrays themselves, or a "
            "function without arguments that makes the dataset from files."
        ) from None
    numbers = iter(range(1, 1 << 30))
    for nodes, output in _functions(graph):
        _set_seeds(nodes, output, seed, numbers)
        for node in nodes:
            _in_order(node)
            node.device = ""
            if "_device" in node.attr:  # of a py_function; it is not the name of a device
                del node.attr["_device"]
    return DatasetGraph(graph, dataset.element_spec, _without_large_arrays(graph))


def _without_large_arrays(graph: Any) -> dict[str, Column]:
    """Takes the large constants out of a graph, and returns their values by their names."""
    found = [
        node for node in graph.node if node.op == "Const" and len(node.attr["value"].tensor.tensor_content) > _LARGE
    ]
    columns = {node.name: column_of(_value(node)) for node in found}
    for node in found:
        graph.node.remove(node)
    return columns


def _functions(graph: Any) -> Iterator[tuple[Any, str]]:
    """Yields the nodes of the graph, and of each function in it, with what follows a node's name in an input."""
    yield graph.node, ""
    for function in graph.library.function:
        yield function.node_def, ":output:0"


def _set_seeds(nodes: Any, output: str, seed: int, numbers: Iterator[int]) -> None:
    """Gives seeds to the operations that have none."""
    constants = {node.name: node for node in nodes if node.op == "Const"}
    for node in list(nodes):
        if node.op not in _SEEDED:
            continue
        places = _SEEDED[node.op]
        given = [constants.get(node.input[place].partition(":")[0]) for place in places]
        if any(seed_node is None or _value(seed_node) != 0 for seed_node in given):
            continue
        for place, value in zip(places, (seed, next(numbers)), strict=True):
            own = nodes.add(name=f"{_NEW_SEED}{len(nodes)}", op="Const")
            own.attr["dtype"].type = tf.int64.as_datatype_enum
            own.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64, []))
            node.input[place] = own.name + output


def has_new_seeds(given: DatasetGraph) -> bool:
    """Returns True if some of a dataset's operations had no seed."""
    return any(node.name.startswith(_NEW_SEED) for nodes, _ in _functions(given.graph) for node in nodes)


def with_own_generators(given: DatasetGraph, name: str) -> DatasetGraph:
    """Returns the graph for the process in which the dataset is, whose shuffles would share their random numbers.

    Args:
      given: the graph.
      name: begin of the names of its generators, which no other dataset of the process has.
    """
    graph = v1.GraphDef()
    graph.CopyFrom(given.graph)
    for node in graph.node:
        for handle in node.attr["value"].tensor.resource_handle_val if node.op == "Const" else ():
            handle.name = f"{name}/{handle.name}"
    return dataclasses.replace(given, graph=graph)


def _value(constant: Any) -> Any:
    return tf.make_ndarray(constant.attr["value"].tensor)


def _in_order(node: Any) -> None:
    """Makes an operation with parallel calls give their results in order."""
    if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
        node.attr["deterministic"].s = b"true"
    if "sloppy" in node.attr:
        node.attr["sloppy"].b = False


def imported_dataset(given: DatasetGraph) -> tf.data.Dataset:
    """Returns the dataset in the current graph, which must be one of TensorFlow 1."""
    graph = v1.GraphDef()
    graph.CopyFrom(given.graph)
    (end,) = [node for node in graph.node if node.op == "_Retval"]
    source = end.input[0]
    graph.node.remove(end)
    (variant,) = tf.graph_util.import_graph_def(
        graph,
        input_map={f"{name}:0": _tensor(column) for name, column in given.columns.items()},
        return_elements=[source if ":" in source else source + ":0"],
        name="ps_train_data",
    )
    return _ordered(tf.data.experimental.from_variant(variant, given.element_spec))


def _tensor(column: Column) -> tf.Tensor:
    """Returns a column's values as a tensor that gets them when it runs."""
    tensor = tf.numpy_function(lambda: column.rows(slice(None)), [], column.dtype)
    return tf.ensure_shape(tensor, column.shape)


def _ordered(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)


def spec_of_batches(kind: str, specs: Any) -> Any:
    """Returns the spec of batches of any size, from that of a dataset's elements; None for elements that are None.

    Args:
      kind: the kind of data in the error.
      specs: the dataset's element_spec; tuples, dicts and specs.

    Raises:
      DataError: an element is a single example.
    """

    def spec_of(spec: Any) -> Any:
        # The class is public from TensorFlow 2.17 on.
        if type(spec).__name__ == "NoneTensorSpec":
            return None
        if not hasattr(spec, "shape") or spec.shape.rank is None:
            return spec
        if not spec.shape.rank:
            raise DataError(
                f"the elements of the {kind} are single examples, of the shapes {_shapes(specs)}: end it with "
                ".batch(32)."
            )
        shape = [None, *spec.shape[1:]]
        if isinstance(spec, tf.RaggedTensorSpec):
            return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
        return type(spec)(shape, spec.dtype)

    return tf.nest.map_structure(spec_of, specs)


def _shapes(specs: Any) -> str:
    leaves: Iterable[Any] = tf.nest.flatten(specs)
    return ", ".join(str(getattr(leaf, "shape", None)) for leaf in leaves)
