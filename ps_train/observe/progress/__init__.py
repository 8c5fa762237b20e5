"""Progress: the line on the console, event files, and the results of evaluations.

The idea: the chief's hooks read tensors of a step, at most one step a burst, and write lines and points.

Data structures: `ProgressHook` reads the tensors of a step; points become rarer as the job becomes older.  `EvalLog`
holds the evaluations of a run.

It does not know the status page; both get the same numbers.
"""
