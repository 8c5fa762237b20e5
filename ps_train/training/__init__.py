"""TODO ps_train/training."""
