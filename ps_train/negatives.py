"""Negatives for retrieval, and the softmax over them: help: ranking#negatives."""

from __future__ import annotations

from ps_train.modeling.negatives import Sample, in_batch, keys_of, log_frequencies, sample, sampled_softmax

__all__ = ["Sample", "in_batch", "keys_of", "log_frequencies", "sample", "sampled_softmax"]
