"""The graph of an eager `tf.data.Dataset`, with which another process, or a graph of TensorFlow 1, makes it again.

    graph = dataset_graph(dataset, seed=7)                       # in eager mode
    dataset = imported_dataset(graph, dataset.element_spec)      # in the current graph

The order of its elements is the same wherever the graph is read: a shuffle without a seed gets one, and parallel calls
give their results in order.  A `shuffle` inside of the function of a `flat_map` or `interleave` then gives the same
order in each epoch.  Random numbers in the functions of `map` stay random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError

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

_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
"""Operations that call a function of the process in which they were made."""

_IGNORE_STATE = 1
"""Policy of `DatasetToGraphV2`: state, such as a generator's, is copied, and is not a reason to fail."""


def dataset_graph(dataset: tf.data.Dataset, seed: int) -> Any:
    """Returns the GraphDef of an eager dataset; its last node, `_Retval`, has the dataset as its input.

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
            "function without arguments that makes the dataset."
        ) from None
    numbers = iter(range(1, 1 << 30))
    for nodes, output in _functions(graph):
        _set_seeds(nodes, output, seed, numbers)
        for node in nodes:
            _in_order(node)
            node.device = ""
            if "_device" in node.attr:  # of a py_function; it is not the name of a device
                del node.attr["_device"]
    return graph


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
        if None in given or any(tf.make_ndarray(constant.attr["value"].tensor) != 0 for constant in given):
            continue
        for place, value in zip(places, (seed, next(numbers)), strict=True):
            own = nodes.add(name=f"ps_train_seed_{len(nodes)}", op="Const")
            own.attr["dtype"].type = tf.int64.as_datatype_enum
            own.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64, []))
            node.input[place] = own.name + output


def _in_order(node: Any) -> None:
    """Makes an operation with parallel calls give their results in order."""
    if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
        node.attr["deterministic"].s = b"true"
    if "sloppy" in node.attr:
        node.attr["sloppy"].b = False


def python_calls(graph: Any) -> bool:
    """Returns True if the graph calls Python functions, which other processes do not have."""
    return any(node.op in _PYTHON for nodes, _ in _functions(graph) for node in nodes)


def imported_dataset(graph: Any, element_spec: Any, inputs: Mapping[str, tf.Tensor] | None = None) -> tf.data.Dataset:
    """Returns the dataset in the current graph, which must be one of TensorFlow 1.

    Args:
      graph: of `dataset_graph`.
      element_spec: the dataset's own.
      inputs: tensors in the place of nodes, by their names.
    """
    copy = v1.GraphDef()
    copy.CopyFrom(graph)
    (end,) = [node for node in copy.node if node.op == "_Retval"]
    source = end.input[0]
    copy.node.remove(end)
    (variant,) = tf.graph_util.import_graph_def(
        copy,
        input_map={f"{name}:0": tensor for name, tensor in (inputs or {}).items()},
        return_elements=[source if ":" in source else source + ":0"],
        name="ps_train_data",
    )
    return _ordered(tf.data.experimental.from_variant(variant, element_spec))


def eager_dataset(graph: Any, element_spec: Any) -> tf.data.Dataset:
    """Returns the dataset of a graph of `dataset_graph` in eager mode."""
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph.SerializeToString())
    return _ordered(tf.data.experimental.from_variant(variant, element_spec))


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
        if isinstance(spec, tf.NoneTensorSpec):
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
