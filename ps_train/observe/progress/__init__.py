"""TODO ps_train/observe/progress."""
