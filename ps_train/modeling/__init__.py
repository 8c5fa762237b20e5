"""TODO ps_train/modeling."""
