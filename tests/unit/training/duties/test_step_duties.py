"""Small duties: what is confirmed, handed over, and timed, and when."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.training.duties import step_duties
from ps_train.training.duties.step_duties import Confirming, HeldResiduals, Profiling


@pytest.mark.parametrize("is_chief", [True, False])
def test_the_chief_confirms_before_the_model_is_there_and_another_worker_after(
    monkeypatch: pytest.MonkeyPatch, is_chief: bool
) -> None:
    confirmed: list[Any] = []
    monkeypatch.setattr(step_duties, "confirm", lambda *arguments: confirmed.append(arguments))
    prepared = types.SimpleNamespace(is_chief=is_chief)
    setting: Any = types.SimpleNamespace(
        prepared=prepared, agreed="agreed", joined=types.SimpleNamespace(stores=["ps 0", "ps 1"])
    )
    session: Any = "session"
    duty, start = Confirming(setting), types.SimpleNamespace(step=0)
    duty.connected(session)
    first = list(confirmed)
    duty.opened(session, start)  # type: ignore[arg-type]
    expected = [(prepared, "agreed", "ps 0")]
    assert (first, confirmed) == ((expected, expected) if is_chief else ([], expected))


def test_what_a_codec_holds_is_handed_over_in_a_pause_and_applied_at_the_end() -> None:
    calls: list[Any] = []

    class Residuals:
        def send(self, session: Any) -> None:
            calls.append(("send", session))

        def apply(self, session: Any) -> bool:
            calls.append(("apply", session))
            return len(calls) == 2

    residuals: Any = Residuals()
    duty = HeldResiduals(residuals)
    session: Any = "session"
    duty.paused(session)
    assert duty.settle(session) and not duty.settle(session)
    assert calls == [("send", "session"), ("apply", "session"), ("apply", "session")]


class Tracer:
    latest: dict[str, float] | None = None

    def begin(self, step: int) -> str:
        return f"tracer from step {step}"


class Profile:
    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.tracer, self.calls = arguments, Tracer(), list[str]()

    def finish(self) -> None:
        self.calls.append("finish")

    def close(self) -> None:
        self.calls.append("close")


def test_calls_are_timed_from_the_step_of_the_session_and_told_to_the_status_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_duties, "Profile", Profile)
    monkeypatch.setattr(step_duties, "call_wrappers", lambda job, task, begun: [begun])
    samples: list[Any] = []
    cluster = types.SimpleNamespace(replicas=lambda: ["worker:0", "worker:1", "worker:2"])
    prepared = types.SimpleNamespace(job=types.SimpleNamespace(profile="5:10"), task="worker:1", cluster=cluster)
    current = types.SimpleNamespace(ps=[types.SimpleNamespace(target="grpc://a:1")])
    joined = types.SimpleNamespace(
        directory="m", telemetry=types.SimpleNamespace(include=samples.append),
        resolver=types.SimpleNamespace(current=lambda: current),
    )  # fmt: skip
    setting: Any = types.SimpleNamespace(prepared=prepared, joined=joined, console=types.SimpleNamespace(line=print))
    rounds: Any = types.SimpleNamespace(targets=dict)
    duty = Profiling(setting, rounds)
    profile: Any = duty.profile
    assert profile.arguments[:4] == ("5:10", "worker:1", ["worker:0", "worker:2"], "m")
    assert profile.arguments[4]() == ["grpc://a:1"]
    (sample,) = samples
    assert sample() == {}
    profile.tracer.latest = {"pull": 0.5}
    assert sample() == {"step_time": {"pull": 0.5}}
    session: Any = "session"
    duty.opened(session, types.SimpleNamespace(step=70))  # type: ignore[arg-type]
    assert duty.wrappers() == ["tracer from step 70"]
    duty.paused(session)
    duty.parked()
    duty.ended(None)  # type: ignore[arg-type]
    assert profile.calls == ["finish", "finish", "close"]
