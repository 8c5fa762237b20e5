"""How the processes of a job learn of each other: records on the ps, leases, heartbeats, membership."""
