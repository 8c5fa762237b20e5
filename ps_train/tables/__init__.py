"""The ps side of embedding tables: rows, vocabularies, and their transport."""
