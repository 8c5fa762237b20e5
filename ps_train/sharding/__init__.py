"""Dynamic data sharding: who trains on which examples, and which of them have been used."""
