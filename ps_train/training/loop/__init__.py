"""The parts of a loop of steps: sessions, input, steps in bursts, clients of shared data.

The idea: steps run in bursts of about 0.2 s, and hooks, signals and progress come between them.  A session may end at
any time; another loop then begins in a new one, with the same input.

Data structures: a `Burst` is some steps as calls of `session.run`.  A `StepSource` gives a replica the steps that it
may make.

It does not build the graph of a step, and does not know the task that it serves.
"""
