"""Names of metrics of a part of the test data (--eval_by).

    slice_metric("auc", "country", "de")                # "auc/country=de"
    split_slices({"auc": 0.8, "auc/country=de": 0.7}, "country")    # ({"auc": 0.8}, {"de": {"auc": 0.7}})

Metrics of slices have such names wherever metrics have names, as in event files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

OTHERS = "(others)"
"""The slice of all values that have no slice of their own."""


def names_of_values(values: Sequence[bytes]) -> list[str]:
    """Returns the names of some values for users, all different and none of them OTHERS.

    Bytes that are not UTF-8 and characters that cannot be printed are shown as escapes.
    """
    found: list[str] = []
    for value in values:
        text = value.decode("utf-8", "backslashreplace")
        name = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        while name == OTHERS or name in found:
            name = f"{name}'"
        found.append(name)
    return found


def slice_metric(metric: str, field: str, value: str) -> str:
    """Returns the name of a metric of the examples with a value of a field."""
    return f"{metric}/{field}={value}"


def split_slices(metrics: Mapping[str, float], field: str) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Returns the metrics of all examples, and for each value of a field the metrics of its examples.

    Args:
      metrics: by name.
      field: the field of --eval_by; "" for none.
    """
    whole, slices = dict[str, float](), dict[str, dict[str, float]]()
    for name, number in metrics.items():
        metric, separator, value = name.partition(f"/{field}=") if field else (name, "", "")
        of_value = slices.setdefault(value, {}) if separator else whole
        of_value[metric] = number
    return whole, slices
