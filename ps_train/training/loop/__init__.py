"""The training thread of a worker or the chief: one session after the other."""
