"""Values of --batch_size: a number, or bounds; what is neither is refused in one line."""

from __future__ import annotations

import pytest

from ps_train import ConfigError, Job
from ps_train.config.flags import parse
from ps_train.config.following_values import parse_batch_size
from ps_train.engine.updates.following.batch_size_control import possible_sizes


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        (32, (32,)),
        ("32", (32,)),
        ("64..64", (64,)),
        ("64..512", (64, 128, 256, 512)),
        ("64..500", (64, 128, 256)),
        ("1..3", (1, 2)),
        ("100..200", (100, 200)),
    ],
)
def test_the_sizes_are_the_lower_bound_doubled_up_to_the_upper_one(value: int | str, sizes: tuple[int, ...]) -> None:
    found = parse_batch_size(value)
    assert possible_sizes(found) == sizes
    assert found.is_range == (len(sizes) > 1)


@pytest.mark.parametrize(
    "text",
    ["64..", "..64", "512..64", "0..8", "64..100", "0", "-4", "-4..8", "64...512", "64..128..256", "64-512", "a..b",
     "64.. 512", "1e3", "", "\uff12..\uff14", "1..9999999999", "2147483648", "99999999999999999"],
)  # fmt: skip
def test_what_is_neither_a_size_nor_bounds_is_refused_with_its_value_source_and_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse([f"--batch_size={text}"], {})
    error = str(caught.value)
    assert "\n" not in error and "as the text" not in error
    assert error.startswith("batch_size=") and "(from the command line)" in error
    assert "a whole number of at least 1, or two as in 64..512" in error


def test_a_flag_with_one_number_is_a_number_as_before() -> None:
    assert parse(["--batch_size=64"], {}).job.batch_size == 64
    assert parse(["--batch_size=64..512"], {}).job.batch_size == "64..512"


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None])
def test_values_of_other_types_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="batch_size="):
        Job(batch_size=value)  # type: ignore[arg-type]


def test_bounds_must_be_those_of_all_tasks_while_numbers_may_differ() -> None:
    assert Job(batch_size="8..64").shared_fields() != Job(batch_size="8..32").shared_fields()
    assert Job(batch_size="8..64").shared_fields() != Job(batch_size=8).shared_fields()
    assert Job(batch_size=16).shared_fields() == Job(batch_size=8).shared_fields()


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"batch_size": 64, "scale_learning_rate": "linear"}, "scale_learning_rate=linear.*batch_size=64"),
        ({"batch_size": "64..64", "scale_learning_rate": "sqrt"}, "scale_learning_rate=sqrt.*batch_size=64..64"),
        ({"batch_size": "4..64", "towers": "8"}, "towers=8.*at most 4"),
        ({"batch_size": "4..64", "sharding": "dynamic", "shard_examples": 32}, "shard_examples=32.*batch_size=4..64"),
    ],
)
def test_combinations_that_do_not_go_together_are_refused(fields: dict, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        Job(**fields)
