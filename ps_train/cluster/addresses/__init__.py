"""Addresses: the cluster from flags, files, DNS, Slurm, Kubernetes and MPI.

The idea: each source (flags, a flagfile, `TF_CONFIG`, a watched file, DNS, Slurm, Kubernetes, MPI) is a function of
the flags and the environment.  Every task computes the whole cluster alone, so all must compute the same.

Data structures: an `Address` is a host and a port.  `Cluster` is the checked list of addresses with the chief,
whatever the source.  A `ClusterResolver` holds the present addresses of the ps and follows a changed file or name.

No module here opens a session; only `dns.py`, `kubernetes_node.py` and `ports.py` use the network.
"""
