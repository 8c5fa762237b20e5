"""Addresses: the cluster from flags, files, DNS, Slurm, Kubernetes and MPI.

The idea: each source (flags, a flagfile, `TF_CONFIG`, a watched file, DNS, Slurm, Kubernetes, MPI) is a function of
the flags and the environment.  Every task computes the whole cluster alone, so all must compute the same.

Data structures: an `Address` is a host and a port.  `Cluster` is the checked list of addresses with the chief,
whatever the source.  A `ClusterResolver` holds the present addresses of the ps and follows a changed file or name.

No module here opens a session; only `dns.py`, `kubernetes_node.py` and `ports.py` use the network.

Files:

    cluster.py           Cluster layout: the checked addresses of `ps_hosts`, `worker_hosts` and `chief_hosts`
    dns.py               Host lists from a DNS name: `--worker_hosts=dns:workers.example:2222*4`
    environment.py       Environment variables that must be set before TensorFlow reads them
    from_environment.py  The flags of a process, with the cluster that its environment describes
    kubernetes.py        The cluster of Kubernetes pods, whose names end with a number: a StatefulSet, or an indexed
                           Job
    kubernetes_node.py   A label of the Kubernetes node on which this pod runs, asked of the API server
    mpi.py               The task of an MPI rank, and its cluster from a hostfile or from host lists
    own_rack.py          The rack of this task as its platform knows it: `--rack=slurm` and `--rack=kubernetes`
    ports.py             Checks of this process's port: it is free, its host is this machine, and the name of the
                           process that holds it
    ranks.py             Tasks of numbered processes: the first ranks are ps, the others are workers
    resolver.py          Cluster resolver: the current addresses of the ps, from the host lists or from --cluster_file
    slurm.py             The cluster of a Slurm job step, from the variables that `srun` sets
"""
