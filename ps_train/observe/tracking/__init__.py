"""Experiment trackers: the chief's numbers in MLflow, W&B, or the hyperparameters of TensorBoard (--track).

The idea: a thread of its own hands on what the event files get anyway.  A tracker that is slow, down or hangs loses
points.  It never delays a step, and never ends the job.

Data structures: `TrackedRun` is all that is known of a run when it begins.  A `Point` is numbers by name at a step.
`Tracking` is a bounded queue of points and the thread behind it.  A `Tracker` knows one library and may block.

It does not know where a tracker is, or the keys to it: each library takes these from its own environment variables.
"""
