"""The prediction from a sample: on one machine, and on machines of their own."""

from __future__ import annotations

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.commands.doctor.prediction import (
    Network,
    Places,
    fitted_costs,
    predicted_pushes,
    prediction_findings,
    rounded,
)
from ps_train.commands.doctor.sample import Sample
from ps_train.config.job import Job
from ps_train.observe.status.event_model import Traffic

NO_NETWORK = Network()
SAMPLE = Sample(workers=1, num_ps=1, pushes_per_sec=50.0, worker_cpu=0.012, ps_cpu=0.004)


def places(num_ps, workers, own=(), cores=2, known=None):
    job = Job(ps_hosts=tuple(f"p{i}:1" for i in range(num_ps)), worker_hosts=tuple(f"w{i}:1" for i in range(workers)))
    return Places.of(Cluster.of(job), own, cores, known or {})


def test_the_sample_itself_is_predicted_exactly():
    here = places(1, 1, own=["ps:0", "worker:0"])
    assert here.is_one_machine
    costs = fitted_costs(SAMPLE, 2, lockstep=False)
    assert predicted_pushes(costs, here, NO_NETWORK, False) == pytest.approx(50, rel=0.03)


def test_workers_on_one_machine_share_its_cores():
    own = ["ps:0", *(f"worker:{i}" for i in range(8))]
    rate = predicted_pushes(fitted_costs(SAMPLE, 2, False), places(1, 8, own), NO_NETWORK, False)
    assert rate == pytest.approx(2 / 0.016, rel=0.1)


def test_workers_apart_add_up_until_the_ps_is_full():
    costs = fitted_costs(SAMPLE, 2, False)
    assert predicted_pushes(costs, places(1, 4), NO_NETWORK, False) == pytest.approx(200, rel=0.1)
    assert predicted_pushes(costs, places(1, 64), NO_NETWORK, False) == pytest.approx(2 / 0.004, rel=0.05)
    assert predicted_pushes(costs, places(1, 64, known={"ps:0": 4}), NO_NETWORK, False) == pytest.approx(1000, rel=0.1)


def test_the_network_makes_a_step_longer_but_not_on_one_machine():
    costs = fitted_costs(SAMPLE, 2, False)
    slow = Network(round_trip=0.01, pull=10e6, push=10e6, traffic=Traffic(100_000))
    assert slow.secs() == pytest.approx(0.02 + 0.02, rel=0.02)
    assert predicted_pushes(costs, places(1, 1), slow, False) == pytest.approx(1 / 0.06, rel=0.05)
    assert predicted_pushes(costs, places(1, 1, ["ps:0", "worker:0"]), slow, False) == pytest.approx(50, rel=0.03)


def test_workers_that_the_lists_do_not_name_count():
    job = Job(ps_hosts=("p:1",), worker_hosts=("0=w:1",), num_workers=3)
    assert len(Places.of(Cluster.of(job), ["worker:0"], 2, {}).workers) == 3


def test_workers_that_are_the_ps_are_on_the_machines_of_the_ps_and_nothing_saturates():
    job = Job(worker_hosts=("w0:1", "w1:1"), ps_on_workers=True)
    apart = Places.of(Cluster.of(job), [], 2, {"worker:1": 8})
    assert apart.servers == apart.workers == ("w0", "w1") and apart.cores["w1"] == 8
    found = prediction_findings(job, Sample(2, 2, 50.0, 0.012, 0.0), apart, NO_NETWORK, 2)
    assert [one.subject for one in found] == ["predict"] and "2 workers, which are the ps, on their" in found[0].text


@pytest.mark.long
def test_the_findings_say_rate_saturation_and_number_of_ps():
    job = Job(ps_hosts=("p0:1",), worker_hosts=tuple(f"w{i}:1" for i in range(64)), batch_size=10)
    found = prediction_findings(job, SAMPLE, places(1, 64), NO_NETWORK, 2)
    assert [one.level for one in found] == ["ok", "warn"]
    assert "about 5,000 examples/s with 64 workers and 1 ps on their machines" in found[0].text
    assert "1 ps of 2 cores saturate at" in found[1].text and found[1].advice.startswith("use --num_ps=")
    few = prediction_findings(job, SAMPLE, places(1, 2), NO_NETWORK, 2)
    assert few[1].level == "ok" and "num_ps=1 is enough for 2" in few[1].text


@pytest.mark.parametrize(("value", "text"), [(23_456, "23,000"), (7.23, "7.2"), (0, "0"), (189, "190"), (12.0, "12")])
def test_a_prediction_has_two_digits(value, text):
    assert rounded(value) == text


FLOATS = Traffic(whole=4_000_000, pulled=1_000_000, pushed=1_000_000)
GIGABIT = 125e6


def test_codecs_make_fewer_bytes_and_less_time_on_the_wire():
    plain = Network(pull=GIGABIT, push=GIGABIT, traffic=FLOATS)
    assert FLOATS.on_wire(("none", "none")) == (4e6, 4e6)
    assert FLOATS.on_wire(("bfloat16", "int8")) == (2e6, pytest.approx(1.016e6, rel=1e-3))
    assert FLOATS.on_wire(("float16", "top_k:0.01,int8")) == (2e6, pytest.approx(30_156, rel=1e-3))
    half = Network(pull=GIGABIT, push=GIGABIT, traffic=FLOATS, codecs=("bfloat16", "bfloat16"))
    assert half.secs() == pytest.approx(plain.secs() / 2)


def test_values_that_no_codec_encodes_travel_as_they_are():
    mixed = Traffic(whole=1_000, pulled=100, pushed=50)  # 600 bytes are of other dtypes; 50 values have rows
    assert mixed.on_wire(("bfloat16", "bfloat16")) == (800, 900)


def wire_finding(traffic, **fields):
    job = Job(ps_hosts=("p0:1",), worker_hosts=("w0:1",), batch_size=10, **fields)
    network = Network(pull=GIGABIT, push=GIGABIT, traffic=traffic, codecs=(job.pull_codec, job.push_codec))
    found = prediction_findings(job, SAMPLE, places(1, 1), network, 2)
    return found, next((one for one in found if one.subject == "wire"), None)


def test_where_the_wire_is_the_limit_a_codec_is_named_with_its_gain():
    found, wire = wire_finding(FLOATS)
    assert wire is not None and wire.level == "warn"
    assert wire.text.startswith("a step pulls 3.8 MiB and pushes 3.8 MiB: 56.5 of ")
    first, second, third, fourth, _ = wire.advice.split("; ")
    assert first.startswith("--pull_codec=bfloat16 --push_codec=bfloat16 would make up to ")
    assert "=bfloat16 --push_codec=int8" in second and "=int8 --push_codec=int8" in third
    assert "--push_codec=top_k:0.01" in fourth
    rates = [float(one.rpartition("up to ")[2].partition(" ")[0]) for one in (first, second, third, fourth)]
    now = float(found[0].text.split()[1])
    assert now < rates[0] < rates[1] <= min(rates[2:])


def test_of_a_worker_that_is_a_ps_only_the_shares_of_others_leave_the_process():
    assert FLOATS.without_own_share(4) == Traffic(3_000_000, 750_000, 750_000)
    assert FLOATS.without_own_share(1) == Traffic()


def test_codecs_that_the_job_has_are_not_proposed_again():
    _, wire = wire_finding(FLOATS, pull_codec="bfloat16", push_codec="bfloat16")
    assert wire is not None and wire.level == "warn"
    assert "--push_codec=bfloat16" not in wire.advice and "--push_codec=int8" in wire.advice
    _, wire = wire_finding(FLOATS, pull_codec="bfloat16", push_codec="top_k:0.01")
    assert wire is not None and "codec" not in wire.advice


def test_where_the_wire_is_no_limit_or_not_measured_no_codec_is_named():
    _, wire = wire_finding(Traffic(whole=40_000, pulled=10_000, pushed=10_000))
    assert wire is not None and (wire.level, wire.advice) == ("ok", "")
    assert wire_finding(Traffic())[1] is None
