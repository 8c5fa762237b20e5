"""TODO ps_train/commands."""
