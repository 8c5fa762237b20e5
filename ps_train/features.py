"""Features from columns: buckets, crossed columns, position bias: help: ranking#features."""

from __future__ import annotations

from ps_train.modeling.features import cross, log_buckets, position_bias, quantile_buckets, quantiles

__all__ = ["cross", "log_buckets", "position_bias", "quantile_buckets", "quantiles"]
