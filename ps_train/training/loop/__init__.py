"""The parts of a training thread: sessions, input, steps in bursts, the recovery of lost state.

The idea: steps run in bursts of about 0.2 s, and hooks, signals and progress come between them.  A session may end at
any time; the loop then begins a new one, with the same input and the same source of steps.

Data structures: a `Burst` is some steps as calls of `session.run`.  A `StepSource` gives a replica the steps that it
may make.  `Recovery` says what the chief restores after a loss.

It does not build the graph of a step, and does not know the task that it serves: `tasks/` puts the parts together.
"""
