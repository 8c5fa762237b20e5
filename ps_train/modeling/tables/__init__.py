"""Embedding tables, the worker's side: declarations, lookups, and the order of rows.

The idea: all lookups of one forward pass are collected and answered together.  In a plain graph a table is one
variable that `tf.gather` reads.  In training a row source that the engine sets fetches the rows from the ps.

Data structures: a `Table` is a declaration.  `DeferredLookups` hold the lookups of a forward pass, whose results are
bound later.  `VocabularyVariables` map the ids of an open vocabulary to rows, with a `RowIndex` to find them.

It does not know messages or ps, except that rows have one order for any number of ps; decisions 0009 and 0012.
"""
