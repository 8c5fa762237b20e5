"""TODO ps_train/observe/profile."""
