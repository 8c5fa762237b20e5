"""TODO ps_train/observe/status."""
