"""Synthetic click data in the format of the Criteo challenge, for trying models without data."""
