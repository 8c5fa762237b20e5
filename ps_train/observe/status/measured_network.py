"""Throughput to each ps as the doctor has measured it, in a file of the model directory; the rules of health read it.

write_network("/models/run1", {"ps:0": (450e6, 160e6)})     # bytes a second from and to the ps
read_network("/models/run1")                                # {"ps:0": (450e6, 160e6)}, {} without a file
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ps_train.base.untrusted import parse_json, read_text
from ps_train.base.whole_file import write_whole

_NAME = "doctor.json"


def write_network(directory: str, found: Mapping[str, tuple[float, float]]) -> None:
    """Writes the bytes a second that each ps sends and receives.

    Raises:
      OSError: the file cannot be written.
    """
    os.makedirs(directory, exist_ok=True)
    content = {"version": 1, "network_bytes_per_sec": {name: list(rates) for name, rates in found.items()}}
    write_whole(os.path.join(directory, _NAME), json.dumps(content) + "\n")


def read_network(directory: str) -> dict[str, tuple[float, float]]:
    """Returns what was measured; {} where there is no file, or none of this form."""
    try:
        found = parse_json(read_text(os.path.join(directory, _NAME)))["network_bytes_per_sec"]
        return {str(name): (float(sent), float(received)) for name, (sent, received) in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}
