"""What a task does in training beside its steps: one duty for each feature.

The idea: a feature of training enters by one door.  A duty is made in the graph of the step, while that is still open,
and is told of the life of the training: a session opens, the loop of steps ends, the session is lost, the job is over.
`lists.py` makes the duties of a worker and of the chief, in an order that it explains.

Of five things a task has exactly one: where its model comes from (`Model`), what it trains on (`Feed`), whom its steps
wait for (`Rounds`), who saves (`Saves`), and how its job ends (`Ending`).  They are duties too.

Data structures: `Setting` is what duties are made of.  `Start` is where a session begins.  `Parts` are the duties of a
task.

A duty does not run the loop and opens no session; `tasks/` does.  No duty knows another one, but by what it was made
with.
"""
