"""Dataclass fields that are flags: their metadata hold help, check and sharing of the value.

save_steps: int = job_field(0, "saving", "Save a checkpoint every so many global steps.", at_least(0))
check_fields(job, job.sources)              # in the dataclass's __post_init__
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ps_train.config.validators import Check, anything
from ps_train.errors import ConfigError


def job_field(
    default: Any,
    section: str,
    help: str,
    check: Check = anything,
    *,
    shared: bool = False,
    common: bool = False,
) -> Any:
    """Returns a dataclass field that is a flag.

    Args:
      default: the default.
      section: heading of the flag in the help text.
      help: help of the flag.
      check: check of the value.
      shared: if True, every task of the job must have the same value.
      common: if True, --help shows the flag; otherwise only --helpfull.
    """
    metadata = {"section": section, "help": help, "check": check, "shared": shared, "common": common}
    return dataclasses.field(default=default, metadata=metadata)


def job_fields(kind: Any) -> list[dataclasses.Field[Any]]:
    """Returns the fields that are flags."""
    return [field for field in dataclasses.fields(kind) if field.metadata]


def kind_of(field: dataclasses.Field[Any]) -> type:
    """Returns the type of a flag's value: int for an annotation of `int | None`, tuple for `tuple[str, ...]`."""
    annotation = str(field.type).removesuffix(" | None").partition("[")[0]
    return {"int": int, "float": float, "str": str, "bool": bool, "tuple": tuple}[annotation]


def check_fields(value: Any, sources: Mapping[str, str]) -> None:
    """Checks all fields; raises ConfigError for the first invalid value."""
    for field in job_fields(type(value)):
        check: Check = field.metadata["check"]
        field_value = getattr(value, field.name)
        if isinstance(field_value, float) and not math.isfinite(field_value):
            raise ConfigError(
                f"{field.name}={field_value}{source_of(sources, field.name)} is not finite: use {check.allowed}."
            )
        if not check.holds(field_value):
            raise ConfigError(
                f"{field.name}={field_value}{source_of(sources, field.name)} is not valid: use {check.allowed}."
            )


def source_of(sources: Mapping[str, str], name: str) -> str:
    """Returns ` (from the command line)` for error texts; "" if the source is unknown."""
    return f" (from {sources[name]})" if name in sources else ""
