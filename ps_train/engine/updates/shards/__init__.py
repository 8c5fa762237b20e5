"""Shards of data on the ps: who owns which, and how far each is used.

The idea: a push carries how far its batch has used a shard, and the ps applies it only from the place where it stands.
So a batch is used once, whoever sends it, and however often.
"""
