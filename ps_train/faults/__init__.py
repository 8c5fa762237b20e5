"""Faults that a user injects with --inject_fault; without that flag none of them is part of a run."""
