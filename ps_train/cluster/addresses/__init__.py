"""Addresses: the cluster from flags, files, DNS, Slurm, Kubernetes and MPI.

`Cluster` is the result of all sources.  No module here opens a session; only `dns.py` and `ports.py` use the network.

Files:

    cluster.py           Cluster layout: the checked addresses of `ps_hosts`, `worker_hosts` and `chief_hosts`
    dns.py               Host lists from a DNS name: `--worker_hosts=dns:workers.example:2222*4`
    environment.py       Environment variables that must be set before TensorFlow reads them
    from_environment.py  The flags of a process, with the cluster that its environment describes
    kubernetes.py        The cluster of Kubernetes pods, whose names end with a number: a StatefulSet, or an indexed
                           Job
    mpi.py               The task of an MPI rank, and its cluster from a hostfile or from host lists
    ports.py             Checks of this process's port: it is free, its host is this machine, and the name of the
                           process that holds it
    ranks.py             Tasks of numbered processes: the first ranks are ps, the others are workers
    resolver.py          Cluster resolver: the current addresses of the ps, from the host lists or from --cluster_file
    slurm.py             The cluster of a Slurm job step, from the variables that `srun` sets
"""
