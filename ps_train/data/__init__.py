"""The input: from files to the batches of one replica, with one module for each file format."""

from __future__ import annotations

from ps_train.data import criteo, digits, idx
from ps_train.data.stream import RandomAccessChunks, Stream, pipeline_error

__all__ = ["RandomAccessChunks", "Stream", "criteo", "digits", "idx", "pipeline_error"]
