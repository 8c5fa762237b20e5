"""TODO ps_train/compat/scripts."""
