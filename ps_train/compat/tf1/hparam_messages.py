"""The message `HParamDef` of `tf.contrib.training`, in which programs for TensorFlow 1 store hyperparameters.

    message = message_of({"rate": (0.1, float, False), "units": ([64, 32], int, True)})
    values_of(message)                  # {"rate": 0.1, "units": [64, 32]}, with the precision of float32

TensorFlow has it no longer.  Its fields have the numbers that they had, so stored messages are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # a part of TensorFlow
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

__all__ = ["HParamDef"]

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "int64": (_FIELD.TYPE_INT64, 1, 4),
    "float": (_FIELD.TYPE_FLOAT, 2, 5),
    "bytes": (_FIELD.TYPE_BYTES, 3, 6),
    "bool": (_FIELD.TYPE_BOOL, 7, 8),
}
"""Each kind of value with its type, and the numbers of the fields for one value and for a list."""

_NAME = "tensorflow.HParamDef"


def _field(owner: Any, name: str, number: int, kind: Any, type_name: str | None = None, is_list: bool = False) -> Any:
    label = _FIELD.LABEL_REPEATED if is_list else _FIELD.LABEL_OPTIONAL
    return owner.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)


def _made() -> Any:
    """Returns the class of the message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="ps_train/compat/tf1/hparam.proto", package="tensorflow", syntax="proto3"
    )
    whole = file.message_type.add(name="HParamDef")
    value = whole.nested_type.add(name="HParamType")
    value.oneof_decl.add(name="kind")
    for name, (kind, single, several) in _KINDS.items():
        listed = whole.nested_type.add(name=f"{name.capitalize()}List")
        _field(listed, "value", 1, kind, is_list=True)
        _field(value, f"{name}_value", single, kind).oneof_index = 0
        _field(value, f"{name}_list", several, _FIELD.TYPE_MESSAGE, f".{_NAME}.{listed.name}").oneof_index = 0
    entry = whole.nested_type.add(name="HparamEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, _FIELD.TYPE_STRING)
    _field(entry, "value", 2, _FIELD.TYPE_MESSAGE, f".{_NAME}.HParamType")
    _field(whole, "hparam", 1, _FIELD.TYPE_MESSAGE, f".{_NAME}.HparamEntry", is_list=True)
    pool = descriptor_pool.DescriptorPool()  # of its own: another package may have the message too
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(_NAME))


HParamDef: Any = _made()


def message_of(values: Mapping[str, tuple[Any, type, bool]]) -> Any:
    """Returns the message of hyperparameters: name to value, its type, and whether it is a list of such values.

    Raises:
      ValueError: a value has another type than int, float, bool and text.
    """
    message = HParamDef()
    for name, (value, kind, is_list) in values.items():
        stored = [each.encode() if isinstance(each, str) else each for each in (value if is_list else [value])]
        if is_list:
            getattr(message.hparam[name], f"{_kind_of(name, kind)}_list").value.extend(stored)
        else:
            setattr(message.hparam[name], f"{_kind_of(name, kind)}_value", stored[0])
    return message


def values_of(message: Any) -> dict[str, Any]:
    """Returns the hyperparameters of a message by name; bytes are texts."""
    found = {}
    for name, one in message.hparam.items():
        value = getattr(one, one.WhichOneof("kind"))
        values = list(value.value) if hasattr(value, "value") else [value]
        values = [each.decode() if isinstance(each, bytes) else each for each in values]
        found[name] = values if hasattr(value, "value") else values[0]
    return found


def _kind_of(name: str, kind: type) -> str:
    for known, kinds in (("bool", bool), ("int64", int), ("float", float), ("bytes", str | bytes)):
        if issubclass(kind, kinds):
            return known
    raise ValueError(
        f"the hyperparameter {name!r} of type {kind.__name__} cannot be in a message: use int, float, bool or text"
    )
