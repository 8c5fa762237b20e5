"""Which calls are traced, and what becomes of them."""

from __future__ import annotations

import functools
import threading
import time

import pytest
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import Fetches
from ps_train.cluster.sessions.ps_clocks import Offset
from ps_train.observe.profile import step_tracer
from ps_train.observe.profile.step_tracer import StepTracer
from tests.support.machine.processes import eventually
from tests.unit.observe.profile.test_step_parts import BASE, one_step, statistics

BURST = Fetches({"train": ["a", "b"] * 4, "examples": [1] * 4}, 4)
SINGLE = {"train": ["a", "b"], "step": "s", "examples": "e"}


class Clocks:
    def compare(self):
        return {"ps:0": Offset(0, 1000)}


class Lost:
    def compare(self):
        raise ValueError("no ps")


class Session:
    """Notes the options of each call."""

    def __init__(self, step: int = 0) -> None:
        self.step, self.options = step, []

    def run(self, fetches, options=None, run_metadata=None):
        self.options.append(options)
        self.step += 1 if "step" in fetches else 4
        if run_metadata is not None:
            run_metadata.step_stats.CopyFrom(statistics(*one_step(at=(time.time_ns() - BASE) // 1000)))
        return {"step": self.step}

    @property
    def traced(self) -> list[int]:
        return [n for n, o in enumerate(self.options) if o is not None and o.trace_level == v1.RunOptions.FULL_TRACE]


def burst(tracer: StepTracer, session: Session, wrap=None) -> None:
    """Three calls of four steps, and one with the hooks."""
    wrap = wrap or tracer.wrap
    run, run_with_hooks = wrap(functools.partial(session.run, options=v1.RunOptions())), wrap(session.run)
    for _ in range(3):
        run(BURST)
    run_with_hooks(SINGLE)


def sampled(clocks, bursts=6):
    tracer, session = StepTracer("worker:1", clocks), Session()
    wrap = tracer.begin(0)
    for _ in range(bursts):
        burst(tracer, session, wrap)
    return tracer, session


def test_one_call_is_sampled_after_the_first_steps():
    tracer, session = sampled(Clocks())
    assert len(session.traced) == 1
    assert session.traced[0] >= step_tracer._CALLS_BEFORE
    found = eventually(lambda: tracer.latest, 10)
    assert found["secs"] == pytest.approx(sum(secs for part, secs in found.items() if part not in ("step", "secs")))
    assert 60 < found["step"] <= session.step
    assert found["compute"] == pytest.approx(15e-6 / 4), "a call of four steps"


def test_a_new_sample_is_not_of_a_step_before_the_wanted_one():
    tracer, session = sampled(Clocks())
    eventually(lambda: tracer.latest, 10)
    tracer.sample_anew(session.step + 60)
    wanted, wrap = session.step + 60, tracer.begin(session.step)
    first = len(session.options)
    for _ in range(10):
        burst(tracer, session, wrap)
    again = [number for number in session.traced if number >= first]
    assert len(again) == 1
    eventually(lambda: tracer.latest["step"] > wanted, 10)
    assert tracer.latest["step"] - 4 >= wanted


def test_samples_are_rare_enough_for_what_they_cost():
    tracer, session = StepTracer("worker:1", Clocks()), Session()
    wrap = tracer.begin(0)
    for _ in range(6):
        burst(tracer, session, wrap)
    usual = tracer._secs[4]
    tracer._note(step_tracer.TracedCall(9, 4, 0, 0, 0, statistics()), 4, usual + 1.0)
    assert tracer._due == pytest.approx(time.monotonic() + 250, abs=5), "one second is 0.4 % of 250"


def test_a_sample_that_cannot_be_analysed_harms_nobody():
    tracer, session = sampled(Lost())
    assert len(session.traced) == 1
    tracer._analysis.join(10)
    assert tracer.latest is None


def test_the_deadline_of_a_call_is_kept():
    session = Session()
    tracer = StepTracer("worker:1", Clocks(), 0, 1)
    kept = v1.RunOptions(timeout_in_ms=777)
    tracer.begin(0)(functools.partial(session.run, options=kept))(SINGLE)
    assert session.options[0].timeout_in_ms == 777
    assert session.traced == [0]
    assert kept.trace_level == v1.RunOptions.NO_TRACE


@pytest.mark.parametrize(("first", "count", "calls", "steps"), [(13, 6, [4, 5], 8), (0, 1, [0], 4), (11, 5, [3, 4], 5)])
def test_steps_are_recorded_from_the_first_until_there_are_enough(first, count, calls, steps):
    found = []
    tracer, session = StepTracer("worker:1", Clocks(), first, count, lambda *a: found.append(a)), Session()
    wrap = tracer.begin(0)
    for _ in range(4):
        burst(tracer, session, wrap)
    assert session.traced == calls
    ((recorded, _),) = found
    assert sum(call.steps for call in recorded) == steps
    assert all(call.step >= first for call in recorded)
    tracer.finish()
    assert len(found) == 1, "they are handed over once"


def test_calls_follow_one_another_without_a_gap():
    found = []
    tracer, session = StepTracer("worker:1", Clocks(), 0, 26, lambda *a: found.append(a)), Session()
    wrap = tracer.begin(0)
    burst(tracer, session, wrap)
    burst(tracer, session, wrap)
    ((recorded, _),) = found
    assert [call.began for call in recorded[1:]] == [call.ended for call in recorded[:-1]]


def test_the_end_of_the_loop_hands_over_what_there_is():
    found = []
    tracer, session = StepTracer("worker:1", Clocks(), 5, 100, lambda *a: found.append(a)), Session()
    burst(tracer, session, tracer.begin(0))
    tracer.finish()
    assert [sum(call.steps for call in calls) for calls, _ in found] == [5]


def test_the_untraced_step_is_known_before_the_recording():
    found = []

    class Slow(Session):
        def run(self, fetches, **options):
            time.sleep(0.02)
            return super().run(fetches, **options)

    tracer, session = StepTracer("worker:1", Clocks(), 26, 1, lambda *a: found.append(a)), Slow()
    wrap = tracer.begin(0)
    for _ in range(3):
        burst(tracer, session, wrap)
    ((_, untraced_secs),) = found
    assert 0.02 * 6 / 21 <= untraced_secs < 0.02, "the first call of each length does not count"


def test_a_new_session_goes_on_with_its_own_step():
    found = []
    tracer = StepTracer("worker:1", Clocks(), 100, 1, lambda *a: found.append(a))
    burst(tracer, Session(), tracer.begin(0))
    assert found == []
    burst(tracer, Session(120), tracer.begin(120))
    assert found[0][0][0].step == 120


def test_two_samples_are_not_analysed_at_once(monkeypatch):
    monkeypatch.setattr(step_tracer, "_PAUSE_SECS", 0.0)
    begun, end = threading.Event(), threading.Event()

    class Waiting:
        def compare(self):
            begun.set()
            end.wait(20)
            return {}

    tracer, session = StepTracer("worker:1", Waiting()), Session()
    wrap = tracer.begin(0)
    for _ in range(12):
        burst(tracer, session, wrap)
    end.set()
    assert begun.is_set()
    assert len(session.traced) == 1


def test_rounds_in_one_call_are_sampled_and_those_with_hooks_are_not():
    tracer, session = StepTracer("worker:1", Clocks()), Session()
    run = functools.partial(session.run, options=v1.RunOptions())
    calls, kinds = tracer.begin(0)(run), []
    with_hooks = tracer.wrap(session.run)
    local = Fetches({"train": ["loop"], "local": []}, 7)
    whole = Fetches({"train": ["a", "b"], "step": "s", "round_steps": "r"}, 24, 3)
    for _ in range(30):
        for call, fetches in ((calls, local), (with_hooks, SINGLE), (calls, whole), (calls, whole)):
            kinds.append(fetches)
            call(fetches)
    assert session.traced and all(kinds[n] is whole for n in session.traced)
    eventually(lambda: tracer.latest is not None, 10)
    assert tracer.latest["compute"] == pytest.approx(15e-6 / 24), "a call of 24 steps"
