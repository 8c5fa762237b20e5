"""The status of a job: the board and its views, health, and the result of a run.

The idea: one board holds the state of the job, and everything else is a view of it: page, JSON, Prometheus, report,
health.  A slow reader delays no step.

Data structures: `Board` is the present state, `TaskBoard` the tasks in it, `History` its curves.  A `Rule` measures
one thing of the board, and has a limit and advice.  A `Display` is what one feature shows, and the views know no
feature by its name.  `RunSummary` is what remains of a run: `result.json`.

It does not ask the ps for anything: heartbeats and hooks bring the numbers.
"""
