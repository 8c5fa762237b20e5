"""Synthetic click data in the format of the Criteo challenge, for models that are tried without data."""
