"""The cluster: the addresses of a job's processes, their ports, their servers and their sessions."""
