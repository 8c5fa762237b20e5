"""Embedding tables: rows looked up by ids, partitioned over all ps and never transferred as a whole.

    from ps_train import embeddings

    def forward(self, features, training):
        ads = embeddings.lookup("ads", features["ad"], rows=1_000_000, dimension=16)                   # [batch, 16]
        seen = embeddings.lookup("ads", features["seen"], rows=1_000_000, dimension=16, combiner="mean")
        fields = embeddings.lookup("fields", features["categories"], hash_buckets=[1000, 50, 200], dimension=8)
        users = embeddings.lookup("users", features["user"], capacity=1_000_000, dimension=16, admit_after=3)

In a plain graph a table is one variable that `tf.gather` reads.  In training, the rows that a batch needs are fetched
from the ps, for all lookups of a model together.  help: tables#a-table
"""

from __future__ import annotations

from ps_train.modeling.tables.lookups import lookup
from ps_train.modeling.tables.row_order import positions_of
from ps_train.modeling.tables.table import Table

__all__ = ["Table", "lookup", "positions_of"]
