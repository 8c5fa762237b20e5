"""Fields of dataclasses that are options: each carries its flag's help, the check of its value, and who must share it.

save_steps: int = option(0, "saving", "Save a checkpoint every so many global steps.", at_least(0))
check_fields(job, job.sources)              # in the dataclass's __post_init__
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ps_train.config.validators import Check, anything
from ps_train.errors import ConfigError


def job_field(
    default: Any, section: str, help: str, check: Check = anything, *, shared: bool = False, kind: type | None = None
) -> Any:
    """A dataclass field with its flag's help; `shared` means that every task of the job must have the same value."""
    metadata = {"section": section, "help": help, "check": check, "shared": shared, "kind": kind or type(default)}
    return dataclasses.field(default=default, metadata=metadata)


def job_fields(kind: Any) -> list[dataclasses.Field[Any]]:
    """The fields that are options (each one a flag)."""
    return [field for field in dataclasses.fields(kind) if field.metadata]


def check_fields(value: Any, sources: Mapping[str, str]) -> None:
    """Raises ConfigError for the first field whose value its check does not allow."""
    for field in job_fields(type(value)):
        check: Check = field.metadata["check"]
        got = getattr(value, field.name)
        if not check.holds(got):
            raise ConfigError(f"{field.name}={got}{source_of(sources, field.name)} is not valid: use {check.allowed}.")


def source_of(sources: Mapping[str, str], name: str) -> str:
    """` (from the command line)`, for error texts; nothing where the source is not known."""
    return f" (from {sources[name]})" if name in sources else ""
