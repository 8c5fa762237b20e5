"""Checkpoints: consistent snapshots of the ps's variables, their files, and the exported model."""
