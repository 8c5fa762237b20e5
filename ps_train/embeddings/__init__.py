"""Sparse tables: rows that are looked up by ids, live partitioned over all ps and never travel whole.

    from ps_train import embeddings

    def forward(self, features, training):
        ads = embeddings.lookup("ads", features["ad"], rows=1_000_000, dimension=16)                   # [batch, 16]
        seen = embeddings.lookup("ads", features["seen"], rows=1_000_000, dimension=16, combiner="mean")
        fields = embeddings.lookup("fields", features["categories"], hash_buckets=[1000, 50, 200], dimension=8)
        users = embeddings.lookup("users", features["user"], capacity=1_000_000, dimension=16, admit_after=3)

What is declared here is ordinary in a plain graph (one variable, `tf.gather`); under training the rows that a batch
needs are fetched from the ps, all lookups of a model together.  See docs/TABLES.md.
"""

from __future__ import annotations

from ps_train.embeddings.lookups import lookup
from ps_train.embeddings.table import Table

__all__ = ["Table", "lookup"]
