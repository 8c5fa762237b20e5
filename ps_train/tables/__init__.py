"""The ps side of embedding tables: rows, vocabularies, and the transport of rows."""
