"""Starts a cluster on this machine as child processes.  Standard library, `config` and `runtime` only."""
