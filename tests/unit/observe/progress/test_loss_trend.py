"""Rise of the loss over its lowest, told from chance."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.observe.progress.loss_trend import LossTrend


def rise_of(*parts: tuple[int, float]) -> float | None:
    """The rise after so many losses near each number; one in ten is that of a hard batch."""
    random, trend, step = np.random.default_rng(2), LossTrend(), 0
    for count, loss in parts:
        for _ in range(count):
            step += 1
            trend.add(step, 1000.0 if step % 10 == 5 else loss + abs(loss) * 0.01 * random.normal())
    return trend.rise()


@pytest.mark.parametrize(
    ("parts", "rise"),
    [
        ([(20, 9.0), (20, 5.0), (20, 2.0), (20, 1.0)], 0.0),
        ([(20, 9.0), (40, 4.0), (20, 6.0)], 0.5),
        ([(20, 9.0), (40, 4.0), (5, 40.0)], 0.0),
        ([(200, 9.0), (1000, 4.0), (400, 6.0)], 0.5),
        ([(40, -4.0), (20, -1.0)], 0.75),
        ([(20, 100.0), (40, 0.01), (20, 0.5)], 0.098),  # little beside the first one
        ([(40, 4.0), (20, 1e12)], 1e6),
        ([(39, 1.0)], None),
        ([], None),
    ],
)
def test_the_rise_is_that_of_the_newest_losses_over_the_lowest(
    parts: list[tuple[int, float]], rise: float | None
) -> None:
    found = rise_of(*parts)
    assert found == rise if rise is None else found == pytest.approx(rise, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("noise", [0.1, 0.4, 1.0])
def test_noise_of_batches_is_no_rise(noise: float) -> None:
    random, trend, most = np.random.default_rng(1), LossTrend(), 0.0
    for step, loss in enumerate(0.4 * random.lognormal(0, noise, 5_000)):
        trend.add(step, loss)
        most = max(most, trend.rise() or 0.0) if step % 10 == 0 else most
    assert most == 0.0


def test_a_recovery_begins_anew_and_a_step_counts_once() -> None:
    trend = LossTrend()
    for step in [*range(45), *[3] * 50]:
        trend.add(step, 1.0 + step)
    assert trend.rise() is None
    for step in range(4, 50):
        trend.add(step, 5.0)
    assert trend.rise() == 0.0
