"""Names of metrics of a part of the test data (--eval_by).

    slice_metric("auc", "country", "de")                # "auc/country=de"
    split_slices({"auc": 0.8, "auc/country=de": 0.7}, "country")    # ({"auc": 0.8}, {"de": {"auc": 0.7}})

Metrics of slices have such names wherever metrics have names, as in event files.
"""

from __future__ import annotations

from collections.abc import Mapping

OTHERS = "(others)"
"""The slice of all values that have no slice of their own."""


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
