"""Embedding tables, the worker's side: declarations, lookups, and the order of rows.

The idea: all lookups of one forward pass are collected and answered together.  In a plain graph a table is one
variable that `tf.gather` reads.  In training a row source that the engine sets fetches the rows from the ps.

Data structures: a `Table` is a declaration.  `DeferredLookups` hold the lookups of a forward pass, whose results are
bound later.  `VocabularyVariables` map the ids of an open vocabulary to rows, with a `RowIndex` to find them.

It does not know messages or ps, except that rows have one order for any number of ps; decisions 0009 and 0012.

Files:

    deferred_lookups.py  The deferred lookups of one forward call: all of them are resolved together
    distributions.py     Distributions of initializers whose values can be drawn for any rows of a table independently
    given_rows.py        Rows that a table begins with: an array, a tensor or a function of the shape gives row i to
                           index i
    id_encoding.py       Encoding of open vocabularies' ids as keys, which are stored, compared and sent
    id_initializer.py    The initial value of a row that an admitted id of an open vocabulary gets
    lookups.py           The function `lookup` that models call to turn ids into rows
    plain_vocabulary.py  Open vocabularies in a plain graph: a model is traced, scored from a checkpoint or served
    row_allocator.py     The allocator of an open vocabulary's rows on one ps: rows are assigned to ids, freed, and
                           assigned again
    row_index.py         Row indices of ids: checked or hashed, with the rows of each field after those of the field
                           before
    row_order.py         The order of a table's rows in memory, and their initial values
    row_source.py        The source of a lookup's rows: the graph's own variable, or the source that training sets
    table.py             The declaration of an embedding table: rows, dimension, initial values, and the treatment of
                           unknown ids
    table_layout.py      The layout of a table's rows in its variable, as checkpoints and exports describe it for a
                           later training
    vocabulary_index.py  The map from an open vocabulary's ids to rows: three variables, and a hash table as their
                           index
"""
