"""Checkpoints: consistent copies of what the ps hold, the files they are written to, and the exported model."""
