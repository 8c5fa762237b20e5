"""The judge is handed what is wrong by one, and must notice."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from tests.trials.storms import record
from tests.trials.storms.excess import Loss, excess, losses_in
from tests.trials.storms.record import Part
from tests.trials.storms.storm import BATCH, EPOCHS
from tests.trials.storms.verdict import Plan, Promise, faults

CHIEF = """worker:0 joined
ps:0  25.1 KiB in 7 variables or slices
  second  4 float32  16 B
  hot rows 0-3  4x2 float32  32 B
  open rows 0-4  5x2 float32  5.0 KiB
  open/used rows 0-4  5x3 int64  15.0 KiB
  uses rows 0-99  100x1 float32  400 B
ps:1  25.1 KiB in 6 variables or slices
  first  4 float32  16 B
  hot rows 4-7  4x2 float32  32 B
  open rows 5-9  5x2 float32  5.0 KiB
  open/used rows 5-9  5x3 int64  15.0 KiB
  uses rows 100-199  100x1 float32  400 B
status   http://127.0.0.1:38453/
"""


def values(here: float = 400, there: float = 400) -> dict[str, np.ndarray]:
    """The values after so many updates on ps 0 and ps 1; each uses half of the 8 ids of the vocabulary."""
    each = np.repeat([here, here, here, here, 0, 0, there, there, there, there], 2).reshape(10, 2)
    return {
        "first": np.full(4, there),
        "second": np.full(4, here),
        "hot": np.repeat([here, there], 8).reshape(8, 2),
        "open": each.copy(),
        "open/used": np.stack([each[:, 0], each[:, 0], each[:, 0] > 0], 1).astype(np.int64),
        "uses": np.full((200, 1), float(EPOCHS)),
    }


def wrong(found: dict[str, np.ndarray], **promise) -> list[str]:
    return faults(found, Plan(CHIEF), Promise(400, **promise))


def test_what_is_as_promised_is_right() -> None:
    assert not wrong(values(), uses=True)
    assert not wrong(values(400, 397), excess=(-3, 0))
    assert not wrong(values(400, 402), pushes=2)
    assert not wrong(values(400, 460), excess=(50, 60))


@pytest.mark.parametrize("name", ["first", "second", "hot", "open"])
@pytest.mark.parametrize("by", [-1, 1, 0.5])
def test_one_update_too_many_or_too_few_is_noticed_in_each_variable(name: str, by: float) -> None:
    found = values()
    found[name] = np.where(found[name] > 0, found[name] + by, 0)
    assert wrong(found)


@pytest.mark.parametrize("name", ["first", "second", "hot", "open"])
def test_one_element_that_has_missed_an_update_is_noticed(name: str) -> None:
    found = values()
    found[name].flat[1] -= 1
    assert wrong(found)


def test_ps_0_is_exact_whatever_ps_1_may_have_lost() -> None:
    assert wrong(values(399, 400), pushes=5, excess=(-9, 9))
    assert wrong(values(401, 400), pushes=5, excess=(-9, 9))


@pytest.mark.parametrize("there", [396, 404])
def test_ps_1_is_within_what_may_be_torn_apart(there: int) -> None:
    assert wrong(values(400, there), pushes=3)
    assert wrong(values(400, there), excess=(-3, 3))


def test_a_row_that_has_other_updates_than_the_variables_of_its_ps_is_noticed_within_the_bounds() -> None:
    found = values(400, 398)
    assert not wrong(found, pushes=3)
    found["hot"][5] += 1
    assert wrong(found, pushes=3)


def test_an_id_without_a_row_or_with_a_wrong_count_is_noticed() -> None:
    found = values()
    found["open/used"][0] = 0
    assert wrong(found)
    found = values()
    found["open/used"][0, 0] -= 1
    assert wrong(found)


@pytest.mark.parametrize("example", [0, 150])
@pytest.mark.parametrize("by", [-1, 1])
def test_an_example_that_was_lost_or_used_twice_is_noticed(example: int, by: int) -> None:
    found = values()
    found["uses"][example] += by
    assert wrong(found, uses=True)


@pytest.mark.parametrize("example", [0, 100])
def test_no_ps_may_lack_examples_of_a_push_that_was_torn_apart(example: int) -> None:
    found = values()
    found["uses"][example : example + BATCH] -= 1
    assert wrong(found, uses=True, pushes=1)


def test_what_a_lossy_codec_leaves_out_has_a_limit() -> None:
    found = values()
    found["first"][:2] -= 2
    assert wrong(found)
    assert not wrong(found, slack=2.0)
    assert wrong(found, slack=1.0)


def test_the_excess_of_ps_1_is_what_the_chief_has_said() -> None:
    assert excess([], 400, 100) == (0, 0)
    assert excess([Loss(frozenset({1}), 80, 20)], 400, 100) == (-20, -20)
    assert excess([Loss(frozenset({0}), 80, 20)], 400, 100) == (20, 120)
    assert excess([Loss(frozenset({0}), 80)], 400, 100) == (0, 320)
    assert excess([Loss(frozenset({0}), 380, 10)], 400, 100) == (10, 20)


def test_a_ps_that_goes_back_to_a_checkpoint_from_before_a_loss_loses_its_excess_too() -> None:
    first = Loss(frozenset({0}), 80, 20)  # ps 1 is 20 ahead from step 80 on
    assert excess([first, Loss(frozenset({1}), 120, 5)], 400, 0) == (15, 15)
    assert excess([first, Loss(frozenset({1}), 40, 50)], 400, 0) == (-50, -50)
    assert excess([first, Loss(frozenset({0, 1}), 120, 5)], 400, 0) == (20, 20)
    assert excess([first, Loss(frozenset({0, 1}), 40, 5)], 400, 0) == (0, 0)
    assert excess([first, Loss(frozenset({0, 1}), 80, 5)], 400, 0) == (0, 20)  # written before or after it


def test_the_chiefs_lines_are_understood() -> None:
    output = (
        "step 90/400\nps:1 restarted; restored step 80; 17 updates lost there\n"
        "ps:0, ps:1 restarted; restored step 120; 3 updates lost\n"
        "resumed from /tmp/model at step 160\n"
        "ps:0 restarted; restored step 200; an unknown number of updates lost there"
    )
    both = frozenset({0, 1})
    assert losses_in(output) == [
        Loss(frozenset({1}), 80, 17), Loss(both, 120, 3), Loss(both, 160), Loss(frozenset({0}), 200),
    ]  # fmt: skip


def part(**changes) -> Part:
    fields = {
        "day": "2026-01-01 10:00", "generator": 2, "seeds": "0-24", "jobs": 3, "right": 25, "total": 25,
        "secs": "31, 80", "load": "7", "versions": "Python 3.11.7, TensorFlow 2.21.0, 2 cores",
    }  # fmt: skip
    return Part(**{**fields, **changes})


def test_parts_of_a_record_add_up_and_a_wrong_one_stays_in_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "RESULT.md"
    record.append(part(), path)
    path.write_text(path.read_text() + "\n## Notes\n\nA note.\n")
    record.append(part(seeds="25-49", right=24, wrong="seed 31: step 3 | did not\ncome"), path)
    record.append(part(generator=3), path)
    text = path.read_text()
    assert "**Generator 2: 49 of 50 storms were right**, in 2 parts." in text
    assert "**Generator 3: 25 of 25 storms were right**, in 1 parts." in text
    assert "seed 31: step 3 / did not come |" in text
    assert text.endswith("\n## Notes\n\nA note.\n")
    assert [one.seeds for one in record.parts_in(text)] == ["0-24", "25-49", "0-24"]
