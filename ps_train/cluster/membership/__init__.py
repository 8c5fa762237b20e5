"""Coordination of a job's processes: records on the ps, leases, heartbeats, membership."""
