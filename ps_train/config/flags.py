"""Conversion of the command line, flagfiles and TF_CONFIG to a Job and a Task; the only module that uses absl.

    parsed = parse(["--job_name=worker", "--task_index=0", "--flagfile=flags/local_async.flags"], os.environ)

The order of precedence is: command line, flagfile, TF_CONFIG, default.  If the command line contradicts TF_CONFIG, an
error shows both values.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from ps_train.base.errors import ConfigError, nearest, one_line
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.fields import check_fields, item_key, job_fields, kind_of, parse_value, repeated_fields, shown
from ps_train.config.flagfile import flagfile_of, read_flagfile
from ps_train.config.job import Job, Task
from ps_train.config.optimizer_arguments import ARGUMENTS, OUTER_ARGUMENTS, with_defaults
from ps_train.config.refusals import help_of
from ps_train.config.tf_config import FoundCluster, from_tf_config, read_cluster_file
from ps_train.config.verbs import VERBS

_ALL_FIELDS = (*job_fields(Task), *job_fields(Job))
_REPEATED = repeated_fields(Job)
COMMAND_LINE, TF_CONFIG = "the command line", "TF_CONFIG"

USAGE = """Parameter-server training for TensorFlow graphs.

  python -m ps_train                      train the shipped digits model: 1 ps, 2 workers, on this machine
  python -m ps_train --job_name=ps --task_index=0 --flagfile=FILE          one ps of a cluster
  python -m ps_train --job_name=worker --task_index=0 --flagfile=FILE      one worker of a cluster
  python -m ps_train VERB --help                                           another command:

{verbs}

A flagfile has one flag a line and describes one job.  Give every process of the job the same one.
The command line overrides the flagfile, and the flagfile overrides TF_CONFIG.

Without --model_dir a local job writes checkpoints, event files and result.json to runs/MODEL-UPDATE-TIME."""


@dataclasses.dataclass(frozen=True)
class ParsedFlags:
    """The parsed flags.

    Attributes:
      task: this process's task.
      given: flags of the command line and flagfiles, passed on to children.
    """

    job: Job
    task: Task
    given: Mapping[str, Any]


def parse(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    resolve: Callable[[Mapping[str, Any], Mapping[str, str]], FoundCluster] = from_tf_config,
) -> ParsedFlags:
    """Parses the command line and the environment.

    Args:
      arguments: the arguments after the program's name.
      environ: the environment.
      resolve: returns the cluster that the environment describes, with the help of the given flags.

    Raises:
      ConfigError: a flag is invalid; the text is one line.
    """
    _refuse_an_unknown_verb(arguments)
    files, rest = _split_flagfiles(arguments)
    in_files, places = _parse_flagfiles(files)
    on_line = _parse_flags(rest, COMMAND_LINE)
    found_cluster = resolve({**in_files, **on_line}, environ)
    described = {**found_cluster.job, **found_cluster.task}
    _refuse_contradictions(on_line, described, found_cluster.source)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for found, where in (
        (described, dict.fromkeys(described, found_cluster.source)),
        (in_files, places),
        (on_line, dict.fromkeys(_source_keys(on_line), COMMAND_LINE)),
    ):
        values.update(_added(values, found))
        sources.update(where)
    _read_cluster_file(values, sources)
    _refuse_a_task_without_cluster(values, sources)
    names = {field.name for field in job_fields(Task)}
    task = Task(**{name: value for name, value in values.items() if name in names})
    check_fields(task, sources)
    job = Job(**{name: value for name, value in values.items() if name not in names}, sources=sources)
    repeated = {name: values[name] for name in _REPEATED if name in values}
    return ParsedFlags(job, task, {**in_files, **on_line, **repeated})


def _refuse_an_unknown_verb(arguments: Sequence[str]) -> None:
    """Refuses a first word that is no verb: the flags after it belong to the one that was meant."""
    if not arguments or arguments[0].startswith("-") or arguments[0] in VERBS:
        return
    raise _not_understood(
        arguments[0], COMMAND_LINE, nearest(arguments[0].lower(), VERBS, "did you mean {}? U", otherwise="u")
    )


def _not_understood(argument: str, where: str, use: str = "u") -> ConfigError:
    return ConfigError(
        f'positional argument "{shown(argument)}" (from {where}) is not understood: {use}se --name=value, or one of '
        f"{', '.join(VERBS)} as the first argument."
    )


def with_task(task: Task) -> Task:
    """Returns the task with its index; raises ConfigError if the index is missing and has no default."""
    if task.task_index is not None:
        return task
    if task.job_name in ("ps", "worker"):
        raise ConfigError(f"task_index is not given: a {task.job_name} needs --task_index, counted from 0.")
    return task.with_default_index()


def help_text(full: bool) -> str:
    """Returns the flags that most users need, or all with their pages; by section, with their defaults."""
    verbs = "\n".join(f"    {name:10}{verb.about}" for name, verb in VERBS.items())
    lines, section = [USAGE.format(verbs=verbs)], ""
    for field in _ALL_FIELDS:
        if not full and not field.metadata["common"]:
            continue
        if field.metadata["section"] != section:
            section = field.metadata["section"]
            lines.append(f"\n{section}:")
        default = field.default
        shown = (
            "" if default in (None, (), "") else f" [{','.join(default) if isinstance(default, tuple) else default}]"
        )
        allowed = field.metadata["check"].allowed
        allowed = f" ({allowed})" if allowed.startswith("one of") else ""
        page = f" -> {field.metadata['page']}" if full else ""
        lines.append(f"  --{field.name}: {help_of(field)}{allowed}{shown}{page}")
    lines.append("\n  --flagfile: A file of flags, one a line; # starts a comment; the last value of a flag counts.")
    if full:
        lines.append("\n--optimizer_arg takes, with these defaults:")
        lines += [f"  {name}: {with_defaults(name) or 'none'}" for name in ARGUMENTS]
        lines.append("\n--outer_optimizer_arg takes, with these defaults:")
        lines += [f"  {name}: {with_defaults(name, 'outer_optimizer_arg')}" for name in OUTER_ARGUMENTS]
        lines.append("\n-> names the page that explains a flag: python -m ps_train help PAGE#HEADING")
    lines.append("\n--version shows the versions of ps_train, TensorFlow and Python.")
    if not full:
        lines.append(f"\n--helpfull shows all {len(_ALL_FIELDS) + 1} flags.")
    return "\n".join(lines)


def as_arguments(given: Mapping[str, Any]) -> list[str]:
    """Returns flags as a command line for the launcher's children; the inverse of parsing."""
    arguments = []
    for name, value in given.items():
        if name in _REPEATED:
            arguments += [f"--{name}={item}" for item in value]
        else:
            arguments.append(f"--{name}={','.join(value) if isinstance(value, tuple) else value}")
    return arguments


def _split_flagfiles(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separates flagfiles from the other arguments.

    In absl the last value wins.  Here the command line always wins over a flagfile.
    """
    files, rest, pending = [], [], list(arguments)
    while pending:
        argument = pending.pop(0)
        path = flagfile_of(argument)
        if path is None:
            rest.append(argument)
            continue
        path = path if "=" in argument else pending.pop(0) if pending else ""
        if not path:
            raise ConfigError("--flagfile has no value: use --flagfile=PATH.")
        files.append(path)
    return files, rest


def _parse_flagfiles(paths: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the values in flagfiles, and the file and line of each; also of each model argument."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for line in (line for path in paths for line in read_flagfile(path)):
        found = _parse_flags([line.argument], line.source)
        sources.update(dict.fromkeys(_source_keys(found), line.source))
        values.update(_added(values, found))
    return values, sources


def _added(values: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `found`, with the items of repeated flags after those in `values`."""
    return {**found, **{name: values.get(name, ()) + found[name] for name in _REPEATED if name in found}}


def _source_keys(found: Mapping[str, Any]) -> list[str]:
    """Returns the keys of flags in a job's sources; also of each item of a repeated flag."""
    return [*found, *(item_key(name, item) for name in _REPEATED for item in found.get(name, ()))]


def _parse_flags(arguments: Sequence[str], where: str) -> dict[str, Any]:
    values = _define()
    try:
        rest = values(["ps_train", *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        text = one_line(error).replace("Unknown command line flag", "unknown flag")
        raise ConfigError(f"{text} (from {where}); see --helpfull for all flags.") from None
    except flags.IllegalFlagValueError as error:
        found = re.match(r"flag --(\w+)=(.*?): ", str(error), re.DOTALL)
        if found and isinstance(values[found[1]].default, bool):
            text = f"{found[1]}={shown(found[2])} (from {where}) is not valid: use true or false."
            raise ConfigError(text) from None
        raise ConfigError(f"{one_line(error)} (from {where}); see --help.") from None
    except flags.Error as error:
        raise ConfigError(f"{one_line(error)} (from {where}); see --help.") from None
    if rest or "--" in arguments:
        raise _not_understood(rest[0] if rest else "--", where)
    return {field.name: _value_of(field, values, where) for field in _ALL_FIELDS if values[field.name].present}


def _value_of(field: dataclasses.Field[Any], values: flags.FlagValues, where: str) -> Any:
    value = values[field.name].value
    if _means_the_default(field, value):
        raise ConfigError(
            f"{field.name}='' (from {where}) is empty, as is an unset variable: give it a value, or leave it out."
        )
    if isinstance(value, list):
        items = [item.strip() for one in value for item in one.split(",")] if field.metadata["listed"] else value
        return tuple(items)
    if not isinstance(value, str):
        return value
    name = value.partition("=")[0]
    if name.startswith("--") and name.removeprefix("--").removeprefix("no") in values:
        raise ConfigError(f"--{field.name} (from {where}) has no value: it is followed by {name}.")
    return parse_value(field, value, where)


def _means_the_default(field: dataclasses.Field[Any], value: Any) -> bool:
    """Returns whether a flag was given without a value, where its check would take that for the default."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else ["a truth value"]
    empty = "" if isinstance(value, str) else ()
    return kind_of(field) in (str, tuple) and not any(texts) and field.metadata["check"].accepts(empty)


def _define() -> flags.FlagValues:
    """Defines all flags; numbers are texts here, because absl's errors about them are those of Python."""
    values = flags.FlagValues()
    for field in _ALL_FIELDS:
        if field.metadata["repeated"]:
            flags.DEFINE_multi_string(field.name, [], help_of(field), flag_values=values)
        elif kind_of(field) is tuple:
            flags.DEFINE_list(field.name, [], help_of(field), flag_values=values)
        elif kind_of(field) is bool:
            flags.DEFINE_bool(field.name, field.default, help_of(field), flag_values=values)
        else:
            flags.DEFINE_string(field.name, None, help_of(field), flag_values=values)
    return values


def _refuse_a_task_without_cluster(values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Refuses to train alone where the user meant one task of a cluster."""
    if sources.get("job_name") != TF_CONFIG or values["job_name"] == "evaluator":
        return
    if not any(values.get(name) for name in HOST_LISTS):
        raise ConfigError(
            f"TF_CONFIG has a task ({values['job_name']}:{values['task_index']}) but no cluster: give it "
            '"cluster": {"ps": [...], "worker": [...]}, or give the host lists with --ps_hosts and --worker_hosts.'
        )


def _refuse_contradictions(on_line: Mapping[str, Any], described: Mapping[str, Any], source: str) -> None:
    for name in on_line:
        if name in described and on_line[name] != described[name]:
            raise ConfigError(
                f"--{name}={_shown(on_line[name])} (from {COMMAND_LINE}) contradicts {name}="
                f"{_shown(described[name])} (from {source}): drop one of them."
            )


def _read_cluster_file(values: dict[str, Any], sources: dict[str, str]) -> None:
    """Replaces the host lists of TF_CONFIG by those of the cluster file; keeps the `task` of TF_CONFIG."""
    path = values.get("cluster_file")
    if not path:
        return
    for name in HOST_LISTS:
        if sources.get(name, TF_CONFIG) != TF_CONFIG:
            raise ConfigError(
                f"{name}={_shown(values[name])} (from {sources[name]}) and cluster_file={path} are both given: "
                "drop one of them."
            )
        values.pop(name, None)
    found = read_cluster_file(path)
    values.update(found)
    sources.update(dict.fromkeys(found, f"cluster_file {path}"))


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
