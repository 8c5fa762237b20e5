"""The roles of processes, each from start to exit."""
