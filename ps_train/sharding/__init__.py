"""Dynamic data sharding: the cut into shards, their owners, and their progress."""
