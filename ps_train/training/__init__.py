"""What the training thread of a worker and of the chief does, in one session after the other."""
