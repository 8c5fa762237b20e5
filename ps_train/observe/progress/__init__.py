"""Progress: the line on the console, event files, and the results of evaluations.

The idea: the chief's hooks read tensors of a step, at most one step a burst, and write lines and points.

Data structures: `StepFetches` are the tensors that hooks read.  `SummaryInterval` says when a point is due: the older
the job, the rarer.  `EvalLog` holds the evaluations of a run.

It does not know the status page; both get the same numbers.

Files:

    early_stop.py   Hook of the chief that ends the training when a metric of the evaluator gets no better
                      (--early_stop)
    eval_events.py  Results of evaluations, as the event files of an eval directory hold them
    loss_trend.py   Rise of the loss above the lowest that a run has had
    progress.py     The chief's progress: a line on the console every few seconds, and points in the event files
    summaries.py    The model's own summaries and a description of the job in the chief's event file
"""
