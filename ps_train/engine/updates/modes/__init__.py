"""The update modes: `async`, `bounded` and `sync`, and what each needs on a ps.

Data structures: `UpdateMode` (`base.py`) is the interface, `StepOps` what a mode gives to a step, `ParameterShard`
one ps's part of the model, `ShardPart` what a feature adds to it inside the ps's lock.  `RoundState` is a round of
`sync`, `ReplicaClocks` the steps of each replica under `bounded`.  A `StaleGradientRule` changes, slows or drops stale
gradients under `async` and `bounded`.
"""
