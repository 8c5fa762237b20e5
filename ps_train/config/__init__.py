"""The Job: one frozen value that describes a run, its flags, and the checks of its values."""
