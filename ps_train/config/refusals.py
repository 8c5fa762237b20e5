"""What is not possible together: one table, in which each row is the sentence that the user reads.

    refuse(job)                                         # by the flags alone, when a Job is made
    refuse(job, tables=variables.tables())              # once it is known what the model has
    is_possible(job, push_codec="int8")                 # False with racks: what is advised must be possible
    help_of(field)                                      # "async, bounded: drop gradients with a larger staleness."

A row's sentence names flags in braces, which become `name=value (from source)`, and what was found later: tables, the
data, this program.  Flags that are for some values of another flag alone have a row of their own in ONLY_WITH.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import scheme_of
from ps_train.config.fields import job_fields
from ps_train.config.job_values import JobValues, described
from ps_train.config.validators import AUTO_WEIGHTS

_MOST_NAMES = 3

ONLY_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "backup_workers": ("update", ("sync",)),
    "max_staleness": ("update", ("async", "bounded")),
    "divide_lr_by_staleness": ("update", ("async", "bounded")),
    "rack": ("update", ("sync",)),
    "rack_file": ("update", ("sync",)),
    "max_steps_ahead": ("update", ("bounded",)),
    "prefetch_pulls": ("update", ("async",)),
    "table_update": ("update", ("sync",)),
    "shard_examples": ("sharding", ("dynamic",)),
}
"""A flag to another flag and its values that the first one is for; its help begins with them."""


class Refusal(NamedTuple):
    """What a job cannot have.

    Attributes:
      text: the error; flags in braces, and what was found.
      when: returns True for a job that asks for it.
      found: what must have been found besides, as an argument of `refuse`; "" if the flags alone say it.
    """

    text: str
    when: Callable[[JobValues], bool]
    found: str = ""


def is_given(job: JobValues, name: str) -> bool:
    """Returns whether a flag has another value than its default; of max_steps_ahead also whether it was named."""
    if name == "max_steps_ahead":  # its default is a choice, too
        return name in job.sources
    return bool(getattr(job, name) != _DEFAULTS[name])


def _only_with(name: str) -> Refusal:
    other, values = ONLY_WITH[name]
    only = f"for {other}={values[0]}, but" if len(values) == 1 else "not for"
    return Refusal(
        f"{{{name}}} is {only} {{{other}}}.", lambda job: is_given(job, name) and getattr(job, other) not in values
    )


def _with_racks(name: str, why: str, when: Callable[[JobValues], bool] | None = None) -> Refusal:
    asks = when or (lambda job: is_given(job, name))
    return Refusal(f"{{{name}}} is not possible with {{racks}}: {why}.", lambda job: job.has_racks and asks(job))


def _racks_with(what: str, found: str) -> Refusal:
    text = (
        f"{{racks}} is not possible with {what} ({{{found}}}): the workers of a rack push one sum of dense gradients; "
    )
    return Refusal(text + "leave the racks out.", lambda job: job.has_racks, found)


def _without_warm_start(name: str) -> Refusal:
    text = f"{{{name}}} is for a warm start: add --warm_start=CHECKPOINT."
    return Refusal(text, lambda job: not job.warm_start and is_given(job, name))


def _without_local_steps(name: str, what: str) -> Refusal:
    return Refusal(f"{{{name}}} is for {what}.", lambda job: not job.has_local_steps and is_given(job, name))


def _with_local_steps(name: str, why: str, when: Callable[[JobValues], bool] | None = None) -> Refusal:
    asks = when or (lambda job: is_given(job, name))
    return Refusal(f"{{{name}}} is not possible with {{local}}: {why}.", lambda job: job.has_local_steps and asks(job))


def _with_ps_on_workers(name: str, why: str, when: Callable[[JobValues], bool]) -> Refusal:
    return Refusal(f"{{{name}}} is not possible with {{ps_here}}: {why}.", lambda job: job.ps_on_workers and when(job))


REFUSALS: Sequence[Refusal] = (
    Refusal(
        "{save_steps} and {save_secs} leave no time to save: set one of them.",
        lambda job: job.save_steps == 0 and job.save_secs == 0 and job.save_event_secs == 0,
    ),
    Refusal(
        "{delta_every_secs} needs a local directory, but {model_dir}: use a local one, or python -m ps_train delta.",
        lambda job: job.delta_every_secs > 0 and bool(scheme_of(job.model_dir)),
    ),
    Refusal(
        "{export} has no directory to write to: add --export_dir.",
        lambda job: job.export != "final" and not job.export_dir,
    ),
    *map(
        _without_warm_start,
        ("warm_start_map", "warm_start_slots", "warm_start_step", "warm_start_report", "dry_run"),
    ),
    Refusal(
        "{export_rows} has no directory to write to: add --export_dir.",
        lambda job: job.export_rows != "float32" and not job.export_dir,
    ),
    Refusal(
        "{export_rows} is not possible with {export}: leave one of them out.",
        lambda job: job.export_rows != "float32" and job.export.endswith("split"),
    ),
    *map(_only_with, ONLY_WITH),
    Refusal(
        "{ps_recovery} is for update=async, but {update}: its guarantee holds only where all variables are of one "
        "step.",
        lambda job: job.ps_recovery == "partial" and job.update != "async",
    ),
    Refusal(
        "{prefetch_pulls} is not possible with {steps_per_run}.",
        lambda job: job.prefetch_pulls > 0 and job.longest_call == 1,
    ),
    Refusal(
        "{shard_examples} is less than {batch_size}: a batch is of one shard, use a larger one.",
        lambda job: job.shard_examples is not None and job.shard_examples < job.max_batch_size,
    ),
    Refusal(
        "{accumulate} is not possible with {sharding}: a push is of one batch, use accumulate=1 and a larger "
        "batch_size.",
        lambda job: job.is_dynamic and job.accumulate > 1,
    ),
    Refusal(
        "{save_event_secs} is for data without an end, which need sharding=dynamic, but {sharding}.",
        lambda job: job.save_event_secs > 0 and not job.is_dynamic,
    ),
    Refusal(
        "{save_event_secs} is not valid: event times are in ms, use at least 0.001.",
        lambda job: 0 < job.save_event_secs < 0.001,
    ),
    Refusal(
        "{ps_recovery} is not possible with {save_event_secs}: a ps that is restored alone has other rows than the "
        "others, so no cut is exact; use ps_recovery=consistent.",
        lambda job: job.save_event_secs > 0 and job.recovery_mode == "partial",
    ),
    Refusal(
        "{max_workers} is not possible with {epochs} and {sharding}: the workers in the host lists read all of an "
        "epoch between them, use --sharding=dynamic.",
        lambda job: job.is_elastic and job.epochs > 0 and not job.is_dynamic,
    ),
    _with_ps_on_workers("ps_hosts", "the workers are the ps, leave one out", lambda job: bool(job.ps_hosts)),
    _with_ps_on_workers("num_ps", "the workers are the ps, leave one out", lambda job: bool(job.num_ps)),
    _with_ps_on_workers(
        "max_workers",
        "each worker holds a share of the variables, so none may join or leave; leave one of them out",
        lambda job: job.is_elastic,
    ),
    _with_ps_on_workers(
        "ps_weights",
        "the chief's own share would never leave its process, and seem the fastest; give numbers",
        lambda job: job.ps_weights == AUTO_WEIGHTS,
    ),
    _without_local_steps("outer_optimizer_arg", "an outer optimizer: add --local_steps or --outer_optimizer"),
    _without_local_steps("inner_state", "local steps: add --local_steps"),
    _without_local_steps("round_secs", "local steps: add --local_steps"),
    _without_local_steps("local_tables", "local steps: add --local_steps"),
    _with_local_steps("prefetch_pulls", "a round pulls once, at its end"),
    _with_local_steps("rack", "a rack's workers meet in every step"),
    _with_local_steps("rack_file", "a rack's workers meet in every step"),
    _with_local_steps("batch_size", "its size is told with each pull", lambda job: job.batch_sizes.is_range),
    Refusal(
        "{outer_optimizer} is not possible with tables ({tables}): a worker does not keep their rows; use sgd or "
        "nesterov.",
        lambda job: job.is_elastic_average and job.local_tables,
        found="tables",
    ),
    Refusal(
        "{round_secs} is not possible with tables ({tables}): the batches of a round are read before it; use "
        "--local_steps.",
        lambda job: job.round_secs > 0 and job.local_tables,
        found="tables",
    ),
    Refusal(
        "{push_codec} is not possible with {local_tables} and tables ({tables}): the rows of a local step are not "
        "encoded; leave one of them out.",
        lambda job: job.has_local_steps and not job.local_tables and is_given(job, "push_codec"),
        found="tables",
    ),
    *(
        Refusal(f"{{{name}}} is for models with tables, and this one has none: leave it out.", is_asked, found="plain")
        for name, is_asked in (
            ("table_update", lambda job: job.rows_are_async),
            ("local_tables", lambda job: not job.local_tables),
        )
    ),
    Refusal(
        "{ps_placement} needs the racks of the ps: add --rack_file.",
        lambda job: job.ps_placement == "near" and not job.rack_file,
    ),
    _with_racks("ps_on_workers", "a rack's pushes would meet its own workers' pushes on their ps"),
    _with_racks("backup_workers", "a rack pushes the sum of all its workers"),
    _with_racks("max_workers", "the racks of all workers must be known at the start"),
    _with_racks("push_codec", "the sums of a rack would be rounded twice"),
    _with_racks("pull_codec", "values are passed on inside a rack as they were pulled"),
    _with_racks("compute_dtype", "values are passed on inside a rack as they were pulled"),
    _with_racks("sharding", "the ps note the examples of each worker's own push, use sharding=static"),
    _with_racks(
        "batch_size",
        "a rack's push takes another time than a worker's",
        lambda job: job.batch_sizes.is_range,
    ),
    _with_racks("steps_per_run", "a rack's workers meet in every step, use 1", lambda job: job.longest_call > 1),
    _with_racks(
        "inject_fault",
        "a rack's push is one message",
        lambda job: any(text.startswith("drop") for text in job.inject_fault),
    ),
    _racks_with("tables", "tables"),
    _racks_with("variables that the model assigns itself", "assigned"),
    _racks_with("variables below 32 bits", "narrow"),
    Refusal(
        "{rack} is not possible with {program}: use --rack_file.",
        lambda job: bool(job.rack) and not job.rack_file,
        found="program",
    ),
    Refusal(
        "{racks} is not possible with {firewall} as it is: the workers of a rack meet on a free port, which no rule "
        "can name; give the job a --rack_port.",
        lambda job: job.has_racks and not job.rack_port,
        found="firewall",
    ),
    Refusal(
        "{ps_weights} is not possible with {program}: give numbers.",
        lambda job: job.ps_weights == AUTO_WEIGHTS,
        found="program",
    ),
    Refusal(
        "{towers} is more than {batch_size}: each device needs an example, use at most {min_batch_size}.",
        lambda job: job.towers != "all" and int(job.towers) > job.min_batch_size,
    ),
    Refusal(
        "{scale_learning_rate} is for a batch_size of two bounds, but {batch_size}: use --batch_size=64..512 for "
        "example, or leave scale_learning_rate out.",
        lambda job: job.scale_learning_rate != "none" and not job.batch_sizes.is_range,
    ),
    Refusal(
        "{accumulate} is not possible with tables ({tables}): use accumulate=1 and a larger batch_size.",
        lambda job: job.accumulate > 1,
        found="tables",
    ),
    Refusal(
        "{push_codec} needs a momentum that is a number, not {momentum}: use a number, or another codec.",
        lambda job: True,
        found="momentum",
    ),
    Refusal(
        "{save_event_secs} is for data without an end, but data() returned {with_end}: leave save_event_secs out.",
        lambda job: job.save_event_secs > 0,
        found="with_end",
    ),
    Refusal(
        "{shard_examples} is for Arrays, but data() returned {in_pieces}: its pieces are the shards; leave "
        "shard_examples out.",
        lambda job: job.shard_examples is not None,
        found="in_pieces",
    ),
    *(
        Refusal(f"{{{name}}} is for data that end, but data() returned {{endless}}.", is_asked, found="endless")
        for name, is_asked in (
            ("epochs", lambda job: job.epochs > 0),
            ("shard_examples", lambda job: job.shard_examples is not None),
        )
    ),
    Refusal(
        "{batch_size} is not possible with {endless}, whose batches are cut while it is read: use one number.",
        lambda job: job.batch_sizes.is_range,
        found="endless",
    ),
)
"""Each row is a combination that a job is refused for; the first one is told."""

_DEFAULTS = {field.name: field.default for field in job_fields(JobValues)}


def refuse(job: JobValues, **found: str | Sequence[str]) -> None:
    """Raises ConfigError for the first row that a job meets.

    Args:
      job: with fields that are each valid.
      found: what was found since the flags were checked; names of the variables, or a text.  Without it, the rows count
        that the flags alone decide; with it, those alone that need it.
    """
    known = {
        name: text if isinstance(text, str) else ", ".join(text[:_MOST_NAMES]) for name, text in found.items() if text
    }
    for row in REFUSALS:
        if (row.found in known if found else not row.found) and row.when(job):
            raise ConfigError(row.text.format_map(_Named(job, known)))


def is_possible(job: JobValues, **changes: Any) -> bool:
    """Returns whether a job may have other values, as far as its flags tell."""
    try:
        dataclasses.replace(job, **changes)
    except ConfigError:
        return False
    return True


def help_of(field: dataclasses.Field[Any]) -> str:
    """Returns the help of a flag, which begins with what the flag is for."""
    _, values = ONLY_WITH.get(field.name, ("", ()))
    return f"{', '.join(values)}: {field.metadata['help']}" if values else field.metadata["help"]


class _Named(dict[str, str]):
    """The words of a row's sentence for a job."""

    def __init__(self, job: JobValues, found: dict[str, str]) -> None:
        super().__init__(found, min_batch_size=str(job.min_batch_size))
        self._job = job

    def __missing__(self, name: str) -> str:
        job = self._job
        of_several = {
            "racks": "rack_file" if job.rack_file else "rack",
            "local": "local_steps" if job.local_step_limits.upper > 1 else "outer_optimizer",
            "ps_here": "num_ps" if job.num_ps == 0 else "ps_on_workers",
        }
        return described(job, of_several.get(name, name))
