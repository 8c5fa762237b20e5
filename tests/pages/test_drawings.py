"""The drawings of the pages are as their script draws them, and show what the modes allow."""

from __future__ import annotations

import itertools

import pytest

from scripts import drawings


def test_the_drawings_are_as_the_script_draws_them(capsys):
    assert drawings.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(("rule", "most"), [(drawings._is_sync, 0), (drawings._is_within_two, 1)])
def test_no_worker_begins_a_step_further_ahead_than_its_mode_allows(rule, most):
    workers = drawings.timelines(rule)
    leads = []
    for worker, other in itertools.permutations(range(len(workers)), 2):
        for number, (begin, _) in enumerate(workers[worker]):
            leads.append(number - sum(end <= begin + 1e-6 for _, end in workers[other]))
    assert max(leads) == most
