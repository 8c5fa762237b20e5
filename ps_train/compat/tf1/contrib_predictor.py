"""The functions of `tf.contrib.predictor`: a saved model as a function of NumPy arrays.

predict = from_saved_model("exports/1700000000")
predict({"x": [[1.0, 2.0]]})["scores"]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["Predictor", "from_estimator", "from_saved_model"]


class Predictor:
    """A function from inputs to outputs, by name, with a session of its own.

    Args:
      session: the session, which has the model's graph.
      feed_tensors: name to tensor of an input.
      fetch_tensors: name to tensor of an output.

    Attributes:
      feed_tensors: the inputs.
      fetch_tensors: the outputs.
    """

    def __init__(self, session: Any, feed_tensors: Mapping[str, Any], fetch_tensors: Mapping[str, Any]) -> None:
        self.session, self.graph = session, session.graph
        self.feed_tensors, self.fetch_tensors = dict(feed_tensors), dict(fetch_tensors)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs, name to array.

        Args:
          input_dict: name to value of an input.

        Raises:
          ValueError: an input is not known.
        """
        if unknown := sorted(input_dict.keys() - self.feed_tensors.keys()):
            raise ValueError(f"{unknown[0]!r} is not an input of the model: use {', '.join(sorted(self.feed_tensors))}")
        feeds = {self.feed_tensors[name]: value for name, value in input_dict.items()}
        return dict(self.session.run(self.fetch_tensors, feeds))


def from_saved_model(
    export_dir: Any,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: Mapping[str, str] | None = None,
    output_names: Mapping[str, str] | None = None,
    tags: str | None = None,
    graph: tf.Graph | None = None,
    config: Any = None,
) -> Predictor:
    """Returns the function of a saved model.

    Args:
      export_dir: its directory.
      signature_def_key: the signature; None: that of serving.
      signature_def: the signature itself.
      input_names: name to the name of a tensor, in place of a signature.
      output_names: the same for the outputs.
      tags: tags of the model, with commas between them; None: `serve`.
      graph: receives the model; None: a new one.
      config: of the session.

    Raises:
      ValueError: the signature is not there, or more than one is given, or the names of one side are missing.
    """
    given = [value for value in (signature_def_key, signature_def, input_names) if value is not None]
    if len(given) > 1 or (input_names is None) != (output_names is None):
        raise ValueError("give one of signature_def_key, signature_def, and input_names with output_names")
    session = v1.Session(graph=graph or tf.Graph(), config=config)
    with session.graph.as_default():
        loaded = v1.saved_model.load(session, tags.split(",") if tags else [v1.saved_model.SERVING], export_dir)
    if input_names is None:
        key = signature_def_key or v1.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if signature_def is None and key not in loaded.signature_def:
            known = ", ".join(sorted(loaded.signature_def))
            raise ValueError(f"signature_def_key={key!r} is not in {export_dir}: use one of {known}")
        found = signature_def or loaded.signature_def[key]
        input_names = {name: info.name for name, info in found.inputs.items()}
        output_names = {name: info.name for name, info in found.outputs.items()}
    inputs, outputs = (
        {name: session.graph.get_tensor_by_name(tensor) for name, tensor in names.items()}
        for names in (input_names, output_names or {})
    )
    return Predictor(session, inputs, outputs)


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: str | None = None,
    graph: tf.Graph | None = None,
    config: Any = None,
) -> Predictor:
    """Returns the function of an Estimator's newest checkpoint.

    Args:
      estimator: is exported into a temporary directory.
      serving_input_receiver_fn: makes the inputs, as for an export.
      output_key: the key of the export_outputs; None: that of serving.
      graph: as of `from_saved_model`.
      config: as of `from_saved_model`.
    """
    with tempfile.TemporaryDirectory() as directory:
        exported = tf.compat.as_str(estimator.export_saved_model(directory, serving_input_receiver_fn))
        return from_saved_model(exported, output_key, graph=graph, config=config)
