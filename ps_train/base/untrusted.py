"""Input from outside of this process, read as data: bounded in size, depth and time, and never executed.

    text = read_text("cluster.json")          # UTF-8 of a regular file, at most 16 MiB
    value = parse_json(text)                  # JSON without duplicate keys, huge numbers or endless nesting
    status = as_record(Status, value)         # a dataclass, whose fields have the annotated types
    path = path_below("copy/2", name)         # a name from a file or a store, which must stay in the directory
    record = unsealed(value)                  # without the hash that `sealed` has added, which must be right

UntrustedError says in a few words what is wrong.  No module of TensorFlow or absl is used.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import math
import os
import re
import select
import stat
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from ps_train.base.errors import RefusedError, shown

T = TypeVar("T")

MOST_BYTES = 1 << 24
"""Limit of a file or text where the caller sets no other."""

_MOST_DEPTH, _MOST_DIGITS, _CHUNK = 64, 40, 1 << 20
_MOST_NAME_BYTES = 255
_NO_NAME = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SEAL = "sha256"
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "dict": (dict,),
    "list": (list,),
}


class UntrustedError(ValueError):
    """Input that is not of the expected form; the text says why, as the end of a sentence."""


def read_text(path: str, most_bytes: int = MOST_BYTES, pipe_secs: float = 0.0, encoding: str = "utf-8-sig") -> str:
    """Reads a text file.  A pipe without a writer does not block it.

    Args:
      path: path of the file.
      most_bytes: the largest size.
      pipe_secs: seconds within which a pipe or device must end; 0 to take regular files only.
      encoding: utf-8-sig to leave out a byte order mark, which editors of Windows write; or utf-8.

    Raises:
      UntrustedError: it is too large, not text, or not a file.
      OSError: it cannot be opened or read.
    """
    return read_text_and_stat(path, most_bytes, pipe_secs, encoding)[0]


def read_text_and_stat(
    path: str, most_bytes: int = MOST_BYTES, pipe_secs: float = 0.0, encoding: str = "utf-8-sig"
) -> tuple[str, os.stat_result]:
    """Reads a text file as `read_text` does, and its state before that.

    Both are of one file, also while another process puts a new file in its place.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode) and not pipe_secs:
            raise UntrustedError("it is not a regular file")
        data = _read_all(descriptor, most_bytes, 0.0 if stat.S_ISREG(mode) else pipe_secs)
    finally:
        os.close(descriptor)
    try:
        return data.decode(encoding), found
    except UnicodeDecodeError:
        raise UntrustedError("it is not UTF-8 text") from None


def _read_all(descriptor: int, most_bytes: int, pipe_secs: float) -> bytes:
    deadline, found, poller = time.monotonic() + pipe_secs, bytearray(), select.poll()
    poller.register(descriptor, select.POLLIN)
    while len(found) <= most_bytes:
        if pipe_secs and not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise UntrustedError(f"it is a pipe that did not end within {pipe_secs:g}s")
        try:
            chunk = os.read(descriptor, min(_CHUNK, most_bytes + 1 - len(found)))
        except BlockingIOError:
            continue
        if not chunk:
            return bytes(found)
        found += chunk
    raise UntrustedError(f"it is larger than {most_bytes} bytes")


def parse_json(text: str | bytes, most_bytes: int = MOST_BYTES, finite: bool = True) -> Any:
    """Parses a JSON text.

    Args:
      text: a str, or bytes of one.
      most_bytes: its largest length.
      finite: refuse NaN and infinite numbers too.

    Raises:
      UntrustedError: the text is not JSON, or beyond the limits.
    """
    if len(text) > most_bytes:
        raise UntrustedError(f"it is longer than {most_bytes} characters")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_int=_int_of,
            parse_float=_finite if finite else float,
            parse_constant=_finite if finite else float,
        )
    except RecursionError:
        raise UntrustedError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise UntrustedError(f"it is not JSON ({error})") from None
    except UnicodeDecodeError:
        raise UntrustedError("it is not UTF-8 text") from None
    _check_contents(value)
    return value


def as_record(kind: type[T], value: Any) -> T:
    """Makes a dataclass of a JSON object.

    Args:
      kind: the dataclass; its annotations may be texts, numbers, lists and dicts.
      value: the object.

    Raises:
      UntrustedError: a field is missing, unknown or of another type.
    """
    if not isinstance(value, dict):
        raise UntrustedError(f"it is {shown(value)} and not a JSON object")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(value.keys() - fields.keys()):
        raise UntrustedError(f"it has the unknown field {shown(unknown[0])}")
    for name, field in fields.items():
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in value and not has_default:
            raise UntrustedError(f"it has no field {name}")
        if name in value and not is_of(str(field.type), value[name]):
            raise UntrustedError(f"its field {name} is {shown(value[name])} and not of the type {field.type}")
    return kind(**value)


def read_record(kind: type[T], text: str) -> T:
    """Returns the dataclass in a record of another task; raises RefusedError for one of another version."""
    try:
        return as_record(kind, parse_json(text, finite=False))
    except UntrustedError as error:
        raise _foreign_record(kind.__name__, error) from None


def read_object(text: str) -> dict[str, Any]:
    """Returns the JSON object in a record of another task; raises RefusedError for anything else."""
    try:
        found = parse_json(text, finite=False)
        if isinstance(found, dict):
            return found
        raise UntrustedError(f"it is {shown(found)} and not a JSON object")
    except UntrustedError as error:
        raise _foreign_record("object", error) from None


def _foreign_record(name: str, error: UntrustedError) -> RefusedError:
    return RefusedError(
        f"a record of another task, {name}, cannot be read: {error}; run the same version of ps_train everywhere."
    )


def file_name(name: str) -> str:
    """Returns a name from a file or a store that is to be one in a directory.

    Raises:
      UntrustedError: it is empty or too long, has a slash, backslash or control character, or is `.` or `..`.
    """
    if name in ("", ".", "..") or _NO_NAME.search(name):
        raise UntrustedError(f"{shown(name)} is not the name of a file")
    if len(name.encode()) > _MOST_NAME_BYTES:
        raise UntrustedError(f"{shown(name)} is longer than {_MOST_NAME_BYTES} bytes")
    return name


def inner_path(name: str) -> str:
    """Returns a name from a file or a store that is to be one below a directory, such as `assets/words.txt`.

    Raises:
      UntrustedError: a part between slashes is not a `file_name`.
    """
    for part in name.split("/"):
        file_name(part)
    return name


def path_below(folder: str, name: str) -> str:
    """Returns the path of a file below a directory.

    Args:
      folder: the directory.
      name: the name, as `inner_path` takes it.

    Raises:
      UntrustedError: the name leads out of the directory, also by a symbolic link.
    """
    inner_path(name)
    path, root = os.path.join(folder, name), os.path.realpath(folder)
    if os.path.commonpath([os.path.realpath(path), root]) != root:
        raise UntrustedError(f"{shown(name)} is a link that leads out of {folder}")
    return path


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a JSON object with the hash of all that is in it."""
    return {**record, _SEAL: _hash_of(record)}


def unsealed(value: Any) -> dict[str, Any]:
    """Returns a JSON object of `sealed` without its hash.

    Raises:
      UntrustedError: it is not a JSON object, or has no hash or a wrong one.
    """
    if not isinstance(value, dict):
        raise UntrustedError(f"it is {shown(value)} and not a JSON object")
    record = {name: one for name, one in value.items() if name != _SEAL}
    if value.get(_SEAL) != _hash_of(record):
        raise UntrustedError("its contents have another hash than it says")
    return record


def _hash_of(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def is_of(annotation: str, value: Any) -> bool:
    """Returns whether a value is of an annotated type, `int` or `dict[str, int]`; whole numbers have 64 bits."""
    base, _, inner = annotation.partition("[")
    if base == "Any":
        return True
    if not isinstance(value, _KINDS[base]) or (isinstance(value, bool) and base != "bool"):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    each = inner.removesuffix("]").rpartition(", ")[2]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not each or all(is_of(each, one) for one in values)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise UntrustedError(f"it has the key {shown(next(n for n in names if names.count(n) > 1))} twice")
    return found


def _int_of(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise UntrustedError(f"it has a number of more than {_MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UntrustedError(f"it has the number {shown(text)}, which is not finite")
    return number


def _check_contents(value: Any) -> None:
    """Raises UntrustedError for deep nesting, and for texts that no file name or UTF-8 can hold."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                _check_characters(one)
            elif isinstance(one, dict):
                below += [*one, *one.values()]
            elif isinstance(one, list):
                below += one
        if not below:
            return
        level = below
    raise UntrustedError(f"it is nested more than {_MOST_DEPTH} deep")


def _check_characters(text: str) -> None:
    if text.isascii() and "\0" not in text:
        return
    if "\0" in text:
        raise UntrustedError(f"it has a text with a NUL character, {shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UntrustedError(f"it has a text with half a character, {shown(text)}") from None
