"""TODO ps_train/cluster/addresses."""
