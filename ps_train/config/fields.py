"""Dataclass fields that are flags: their metadata hold help, page, check and sharing of the value.

save_steps: int = job_field(0, "saving", "Global steps between checkpoints.", at_least(0), page="checkpoints#save")
check_fields(job, job.sources)              # in the dataclass's __post_init__
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError, cut
from ps_train.config.validators import Check, anything

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")
_MOST, _MOST_SECS = 2**63 - 1, 10**9
"""Largest values of numbers and of durations: what TensorFlow and the clocks of the system can hold."""

_LONGEST_VALUE = 100

LOCAL, REMOTE = "local", "remote"
"""Places of a flag's path: a file system of this machine, or also an object store."""


def job_field(
    default: Any,
    section: str,
    help: str,
    check: Check = anything,
    *,
    page: str,
    shared: bool = False,
    common: bool = False,
    repeated: bool = False,
    listed: bool = False,
    path: str = "",
) -> Any:
    """Returns a dataclass field that is a flag.

    Args:
      default: the value without the flag.
      section: heading of the flag in the help text.
      help: help of the flag.
      check: check of the value.
      page: page of the documents, and its heading, that explain the flag, as checkpoints#save.
      shared: if True, every task of the job must have the same value.
      common: if True, --help shows the flag; otherwise only --helpfull.
      repeated: if True, each use of the flag adds one key=value.
      listed: if True, one use may also add several, with commas between them; no value has a comma.
      path: LOCAL or REMOTE if the value is a path.
    """
    metadata = {
        "section": section, "help": help, "check": check, "page": page,
        "shared": shared, "common": common, "repeated": repeated, "listed": listed, "path": path,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


def job_fields(kind: Any) -> list[dataclasses.Field[Any]]:
    """Returns the fields that are flags."""
    return [field for field in dataclasses.fields(kind) if field.metadata]


def repeated_fields(kind: Any) -> list[str]:
    """Returns the names of the flags of which each use adds one key=value."""
    return [field.name for field in job_fields(kind) if field.metadata["repeated"]]


def path_fields(kind: Any) -> dict[str, str]:
    """Returns the names of the flags that are paths, and the place of each, LOCAL or REMOTE."""
    return {field.name: field.metadata["path"] for field in job_fields(kind) if field.metadata["path"]}


def kind_of(field: dataclasses.Field[Any]) -> type:
    """Returns the type of a flag's value: int for an annotation of `int | None`, tuple for `tuple[str, ...]`.

    That of a number or a text (`int | str`) is str.
    """
    annotation = str(field.type).removesuffix(" | None").removeprefix("int | ").partition("[")[0]
    return {"int": int, "float": float, "str": str, "bool": bool, "tuple": tuple}[annotation]


def parse_value(field: dataclasses.Field[Any], text: str, source: str) -> Any:
    """Returns the value that a flag's text stands for; raises ConfigError where it is none of the flag's type."""
    kind = kind_of(field)
    if str(field.type).startswith("int") and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            pass
    if kind in (int, float, bool):
        raise ConfigError(f"{field.name}={shown(text)} (from {source}) is not valid: use {allowed_values(field)}.")
    return text


def check_fields(value: Any, sources: Mapping[str, str]) -> None:
    """Checks all fields; raises ConfigError for the first invalid value."""
    for field in job_fields(type(value)):
        check: Check = field.metadata["check"]
        field_value = getattr(value, field.name)
        most = _MOST_SECS if field.name.endswith("_secs") else _MOST
        too_large = isinstance(field_value, int | float) and field_value > most and field_value != math.inf
        if not check.accepts(field_value) or too_large or (isinstance(field_value, float) and math.isinf(field_value)):
            limit = f", at most {most}" if too_large and check.accepts(most) else ""  # else the check tells its own
            raise ConfigError(
                f"{field.name}={shown(str(field_value))}{source_of(sources, field.name)} is not valid: "
                f"use {allowed_values(field)}{limit if too_large else _as_text(field, field_value)}."
            )


def _as_text(field: dataclasses.Field[Any], value: Any) -> str:
    is_number = str(field.type).startswith("int")  # the numbers of `int | str` are given as such
    return f", as the text {str(value)!r}" if kind_of(field) is str and isinstance(value, int) and not is_number else ""


def allowed_values(field: dataclasses.Field[Any]) -> str:
    """Returns a description of a field's allowed values."""
    kind, allowed = kind_of(field), str(field.metadata["check"].allowed)
    if kind is bool:
        return "true or false"
    if kind is int and allowed.startswith("a number"):
        return allowed.replace("a number", "a whole number", 1)
    return allowed.replace("a number", "a finite number", 1) if kind is float else allowed


def shown(text: str) -> str:
    """Returns a value for an error text: in quotes where it is empty or has unusual characters, and not too long."""
    return cut(text if text and text.isprintable() and text == text.strip() else repr(text), _LONGEST_VALUE)


def item_key(name: str, item: str) -> str:
    """Returns the key of one key=value of a repeated flag in the sources of a job."""
    return item if name == "model_arg" else f"{name}={item}"


def source_of(sources: Mapping[str, str], name: str) -> str:
    """Returns ` (from the command line)` for error texts; "" if the source is unknown."""
    return f" (from {sources[name]})" if name in sources else ""
