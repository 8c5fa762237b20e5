"""Racks: workers of one machine or switch add up their gradients before one of them pushes for all.

The idea: a rack is a small ps beside its workers.  Its aggregator takes a round of gradients, pushes their sum, and
hands the new values on.  The ps see one replica for the whole rack.

Data structures: a `RackRound` is the state of a round on the aggregator, `RackOps` what members and aggregator run.

It does not know processes: who aggregates is for `training/`.  Decision 0051 has the rules.
"""
