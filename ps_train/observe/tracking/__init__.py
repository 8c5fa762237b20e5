"""Experiment trackers: the chief's numbers in MLflow, W&B, or the hyperparameters of TensorBoard (--track).

The idea: a thread of its own hands on what the event files get anyway.  A tracker that is slow, down or hangs loses
points.  It never delays a step, and never ends the job.

Data structures: `TrackedRun` is all that is known of a run when it begins.  A `Point` is numbers by name at a step.
`Tracking` is a bounded queue of points and the thread behind it.  A `Tracker` knows one library and may block.

It does not know where a tracker is, or the keys to it: each library takes these from its own environment variables.

Files:

    hparams_tracker.py  TensorBoard's hyperparameters: the flags of a run beside its scalars, in the chief's event file
    mlflow_tracker.py   MLflow: a run on a tracking server
    tracked_run.py      A run as trackers get it: flags with their sources, arguments, versions, fingerprints, the plan
    tracking.py         The queue of points and the thread that hands them to a tracker
    trackers.py         The tracking of a job: its queue, with the tracker that --track names
    wandb_tracker.py    W&B: a run online or offline
"""
