"""TODO ps_train/cluster/sessions."""
