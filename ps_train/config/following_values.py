"""Values of flags that may follow a measurement: one number, or the bounds between which it follows.

parse_batch_size("64..512")       # Bounds(lower=64, upper=512)
parse_steps_ahead(3)              # Bounds(lower=3, upper=3)
parse_backups("auto", 20)         # Bounds(lower=0, upper=2): a tenth of the workers
possible_codecs("auto")           # ("none", "bfloat16", "int8")
"""

from __future__ import annotations

from ps_train.base.bounds import Bounds
from ps_train.config.codec_spec import INT8, NONE, parse_codec
from ps_train.config.validators import AUTO, MOST_EXAMPLES, Check, is_parsed_by

AUTO_CODECS = (NONE, "bfloat16", INT8)
"""The codecs of a push that follows the network, from the first to the one with the fewest bytes."""

MOST_AUTO_STEPS, MOST_LOCAL_STEPS = 128, 1_000_000
"""Most local steps that --local_steps=auto chooses, and that a round may have: with more a job seems to stand still."""


def parse_batch_size(value: int | str) -> Bounds:
    """Returns the bounds of a value of --batch_size.

    Raises:
      ValueError: the value is not valid.
    """
    sizes = Bounds.parse(value)
    # Between bounds that are closer the size could never change.
    if not 1 <= sizes.lower <= sizes.upper <= MOST_EXAMPLES or (sizes.is_range and sizes.upper < 2 * sizes.lower):
        raise ValueError(value)
    return sizes


def parse_steps_ahead(value: int | str) -> Bounds:
    """Returns the bounds of a value of --max_steps_ahead.

    Raises:
      ValueError: the value is not valid.
    """
    limits = Bounds.parse(value)
    if ".." in str(value) and not limits.is_range:
        raise ValueError(value)
    return limits


def parse_backups(value: int | str, workers: int) -> Bounds:
    """Returns the bounds of a value of --backup_workers; `auto` reaches a tenth of the workers, rounded up.

    Args:
      value: a number or `auto`.
      workers: number of workers of the job.

    Raises:
      ValueError: the value is not valid.
    """
    if value == AUTO:
        return Bounds(0, -(-workers // 10))
    if ".." in str(value):
        raise ValueError(value)
    return Bounds.parse(value)


def parse_local_steps(value: int | str) -> Bounds:
    """Returns the bounds of a value of --local_steps; `auto` reaches MOST_AUTO_STEPS.

    Raises:
      ValueError: the value is not valid.
    """
    if value == AUTO:
        return Bounds(1, MOST_AUTO_STEPS)
    steps = Bounds.parse(value)
    if ".." in str(value) or not 1 <= steps.lower <= MOST_LOCAL_STEPS:
        raise ValueError(value)
    return steps


def possible_codecs(text: str) -> tuple[str, ...]:
    """Returns the codecs that a push may have by a value of --push_codec, the first one first."""
    return AUTO_CODECS if text == AUTO else (text,)


batch_size = Check(
    "a whole number of at least 1, or two as in 64..512, where the second is the largest size and at least twice the "
    f"first; at most {MOST_EXAMPLES}",
    is_parsed_by(parse_batch_size),
)

local_steps = Check(
    f"a whole number of 1 to {MOST_LOCAL_STEPS}, or auto for up to {MOST_AUTO_STEPS}", is_parsed_by(parse_local_steps)
)

max_steps_ahead = Check(
    "a whole number of at least 0, or two as in 0..8, where the second is the larger one",
    is_parsed_by(parse_steps_ahead),
)

backup_workers = Check(
    "a whole number of at least 0, or auto for up to a tenth of the workers",
    is_parsed_by(lambda value: parse_backups(value, 1)),
)

push_codec = Check(
    "none, bfloat16, float16, int8, top_k:SHARE with a share above 0 and at most 1, top_k:SHARE,int8 (or bfloat16, "
    "float16), or auto",
    is_parsed_by(lambda text: [parse_codec(one) for one in possible_codecs(text)]),
)
