"""The fingerprint of a SavedModel: its graph, its variables and its step, in a file beside them.

    write_fingerprint(folder, {"variables": content, "global_step": 2000})
    read_fingerprint(folder)["variables"]

It is `assets.extra/fingerprint.json`, where TensorFlow Serving leaves files alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.io import gfile

from ps_train.base.errors import DamagedCheckpointError
from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text, sealed, unsealed

FILE = "assets.extra/fingerprint.json"
_FORMAT = 2
_UNSEALED = 1
"""The format of exports of earlier versions, which has no hash of itself."""

_UNIQUE = re.compile(rb"(ps_train/[ -~]{1,400}?/)[0-9a-f]{32}")
"""The name of an index of a vocabulary, which differs between the exports of one model (`plain_vocabulary.py`)."""


def write_fingerprint(folder: str, facts: Mapping[str, Any]) -> None:
    """Writes the fingerprint of a SavedModel.

    Args:
      folder: its directory.
      facts: what it says beside the graph.
    """
    path = os.path.join(folder, FILE)
    gfile.makedirs(os.path.dirname(path))
    with gfile.GFile(path, "w") as file:
        json.dump(sealed({"format": _FORMAT, "graph": graph_fingerprint(folder), **facts}), file, indent=1)


def read_fingerprint(folder: str) -> dict[str, Any]:
    """Returns the fingerprint of a SavedModel; {} if it has none.

    Raises:
      DamagedCheckpointError: it is damaged.
    """
    path = os.path.join(folder, FILE)
    try:
        found = parse_json(read_text(path), finite=False)
        if not isinstance(found, dict) or found.get("format") != _UNSEALED:
            found = unsealed(found)
        if not is_of("int", found.get("global_step", -1)) or not is_of("str", found.get("variables", "")):
            raise UntrustedError("its fields have other types")
    except OSError:
        return {}
    except UntrustedError as error:
        raise DamagedCheckpointError(f"{path} is damaged ({error}).") from None
    return found


def graph_fingerprint(folder: str) -> str:
    """Returns the SHA-256 of a SavedModel's graph and signatures, equal for all exports of one model."""
    with gfile.GFile(os.path.join(folder, "saved_model.pb"), "rb") as file:
        graph = saved_model_pb2.SavedModel.FromString(file.read())
    text = _UNIQUE.sub(rb"\1" + b"0" * 32, graph.SerializeToString(deterministic=True))
    return hashlib.sha256(text).hexdigest()
