"""TODO ps_train/compat."""
