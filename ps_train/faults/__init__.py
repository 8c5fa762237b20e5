"""Faults that a user injects with --inject; nothing here is part of a run without them."""
