"""Observation of a job: progress, event files, the status page, health, profiles and the result.

The idea: observation reads.  It must not slow down a step, change a value or end a job because a reader is slow.

Data structures: the board is the present state of the job in the chief; the page, its JSON, Prometheus and
`report.html` are views of it.  A rule of health measures one thing, has a limit, and knows what to do about it.

It does not know how steps are made: others hand it numbers.

Files:

    profile/   Profiles: the operations of some steps, recorded by every worker and joined on the chief's clock
    progress/  Progress: the line on the console, event files, and the results of evaluations
    tracking/  Experiment trackers: the chief's numbers in MLflow, W&B, or the hyperparameters of TensorBoard
    status/    The status of a job: the board and its views, health, and the result of a run
"""
