"""TODO ps_train/data/shards."""
