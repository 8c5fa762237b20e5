"""Tuning: a study of whole jobs, whose flags Optuna proposes.

The idea: a trial is a set of flags, and its executions are whole jobs with these flags and different seeds.  Optuna
chooses the flags, remembers the trials and decides which ones are not worth their end.  This package starts the jobs,
tells Optuna their values, and goes on after any end of a process: the storage knows each finished execution, and an
unfinished one goes on from its own checkpoint.

Data structures: a `Space` has the ranges and choices of flags.  A `Study` is Optuna's study, with the values of each
execution as attributes of its trial.  A `Search` is the state machine of the trials that run; an `Execution` is a job
as it sees it.

It does not know how a job trains, and has no sampler or pruner of its own.
"""
