"""TODO ps_train/commands/firewall."""
