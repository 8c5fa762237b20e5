"""How a training task begins: it prepares alone, joins the cluster, and agrees with the others.

The idea: whatever can be wrong is found as early as it can be.  `prepare` needs no network; `join` connects to every ps
and acquires the lease; `agree` compares the job with the chief's and finds what depends on other tasks.  The graph of
the step follows from what was prepared and agreed on, and so it is built last.

Data structures: `Prepared` is a task whose model's code has run once.  `Joined` is its connections to the job; the
chief's are `JoinedAsChief`.  `Agreed` has the placement of the variables, the racks, and who pushes.

It does not make a step, and does not know what a task does in training.
"""
