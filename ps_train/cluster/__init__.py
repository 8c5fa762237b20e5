"""The processes that take part: their addresses, their sessions, and what they know of each other.

The idea: TensorFlow's servers know only themselves, and a session brings the cluster with it.  So tasks may start in
any order, move to other addresses and come back.  What tasks tell each other are records in a small key-value store
on every ps.  No task waits for another without a deadline.

Data structures: `Cluster` is the checked list of addresses.  A record is a small JSON value under a key such as
`seat/worker:1`.  A lease is a record that one process holds for a task.  The membership is the set of tasks that
rounds wait for.

It does not know models, graphs or steps, apart from their number.
"""
