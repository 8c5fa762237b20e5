"""Faults that a user injects with --inject; without that flag none of them is part of a run."""
