"""TODO ps_train/engine."""
