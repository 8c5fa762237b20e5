"""What one process does, from start to exit."""
