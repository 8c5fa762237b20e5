"""Parts of a step's time, from step statistics made by hand; times in microseconds, the worker's call is 0 to 100."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.observe.profile.step_parts import (
    PARTS,
    TRACING,
    Segment,
    Span,
    copy_of,
    copy_secs,
    parts_of,
    segments_of,
    spans_of,
)

PS, WORKER = "/job:ps/replica:0/task:{}/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0"
BASE = 1_795_000_000_000_000_000


def statistics(*nodes):
    """Nodes are (device, name, operation or sender, begin, end)."""
    found = v1.RunMetadata().step_stats
    for device, name, op, begin, end in nodes:
        (there,) = [d for d in found.dev_stats if d.device == device] or [found.dev_stats.add(device=device)]
        node = there.node_stats.add(all_start_nanos=BASE + begin * 1000, all_end_rel_nanos=(end - begin) * 1000)
        if op.startswith("/job"):
            node.node_name, node.timeline_label = "RecvTensor", f"[8B] [1Mb/s] edge_7_{name} from {op} to {device}"
        else:
            node.node_name, node.timeline_label = name, f"{name} = {op}(a, b)"
    return found


def one_step(copy="", at=0):
    """A step of 60: pull 10, input 5, compute 15, push 10, wait 8, update 12."""
    ps = PS.format(0)
    return [
        (device, copy + name, op, at + begin, at + end)
        for device, name, op, begin, end in [
            (ps, "read", "ReadVariableOp", 0, 4),
            (WORKER, "read", ps, 4, 10),
            (WORKER, "next", "IteratorGetNext", 10, 15),
            (WORKER, "matmul", "MatMul", 15, 30),
            (ps, "matmul", WORKER, 30, 38),
            (ps, "identity", "Identity", 38, 40),
            (ps, "lock", "MutexLock", 40, 48),
            (ps, "adam", "ResourceApplyAdam", 48, 60),
        ]
    ]


STEP = {"pull": 10, "input": 5, "compute": 15, "push": 10, "wait": 8, "update": 12}


def parts(*nodes, offsets=None, ended=100):
    spans = spans_of(statistics(*nodes), "worker:1", offsets or {})
    found = parts_of(segments_of(spans, BASE, BASE + ended * 1000, BASE + ended * 1000))
    return {part: round(secs * 1e6, 3) for part, secs in found.items() if secs}


def test_every_part_of_a_step_is_found():
    assert parts(*one_step()) == STEP | {"other": 40}


def test_the_parts_of_several_steps_add_up_to_the_call():
    nodes = [*one_step(), *one_step("step_1/", 60), *one_step("step_2_1/", 120)]
    assert parts(*nodes, ended=200) == {part: 3 * micros for part, micros in STEP.items()} | {"other": 20}


def test_a_copy_of_a_step_is_told_apart_from_the_step_before_it():
    """Its values are pulled after the first step's lock, and are no update."""
    (read,) = [
        s
        for s in spans_of(statistics(*one_step(), *one_step("step_1/", 60)), "worker:1", {})
        if s[1:3] == ("step_1/read", "ReadVariableOp")
    ]
    assert read.part == "pull"


@pytest.mark.parametrize("ahead", [-7_000_000, 3_000_000])
def test_a_ps_whose_clock_is_wrong_changes_nothing(ahead):
    """It says of a transfer when it sent, by its own clock; TensorFlow limits that to the time of the transfer."""
    moved = [(d, n, op, b - ahead, e - ahead) if d != WORKER else (d, n, op, b, e) for d, n, op, b, e in one_step()]
    moved = [(d, n, op, e, e) if op.startswith("/job") else (d, n, op, b, e) for d, n, op, b, e in moved]
    assert parts(*moved, offsets={"ps:0": ahead * 1000}) == STEP | {"other": 40}


def test_the_workers_own_work_goes_before_what_it_waits_for():
    ps = PS.format(0)
    nodes = [*one_step(), (WORKER, "step_1/next", "IteratorGetNext", 30, 90), (WORKER, "other", "MatMul", 42, 44)]
    assert parts(*nodes) == STEP | {"compute": 17, "wait": 6, "input": 35, "other": 10}
    assert parts(*one_step(), (ps, "queue", "QueueDequeueV2", 60, 95)) == STEP | {"wait": 43, "other": 5}


def test_the_aggregator_of_a_rack_is_to_its_workers_what_a_ps_is_to_others():
    rack = "/job:rack/replica:0/task:0/device:CPU:0"
    met = [
        (d.replace("/job:ps", "/job:rack"), n, o.replace("/job:ps", "/job:rack"), b, e) for d, n, o, b, e in one_step()
    ]
    assert parts(*met, (rack, "gate", "QueueDequeueV2", 60, 95)) == STEP | {"wait": 43, "other": 5}
    late = [(d, n, op, b - 500, e - 500) if d == rack else (d, n, op, b, e) for d, n, op, b, e in met]
    assert parts(*late, offsets={"rack": 500_000}) == STEP | {"other": 40}, "its clock is compared"


def test_tokens_removed_under_the_lock_are_no_waiting():
    assert parts(*one_step(), (PS.format(0), "q", "QueueDequeueManyV2", 60, 70)) == STEP | {"update": 22, "other": 30}


def test_rows_are_asked_for_before_they_are_pulled():
    ps = PS.format(1)
    nodes = [
        (WORKER, "ids", "Unique", 0, 10), (ps, "ids", WORKER, 10, 20), (ps, "gather", "GatherV2", 20, 40),
        (WORKER, "gather", ps, 40, 50), (WORKER, "matmul", "MatMul", 50, 60), (ps, "matmul", WORKER, 60, 70),
        (ps, "lock", "MutexLock", 70, 71), (ps, "adam", "ResourceApplyAdam", 71, 80),
    ]  # fmt: skip
    assert parts(*nodes) == {"compute": 20, "pull": 40, "push": 10, "wait": 1, "update": 9, "other": 20}


def test_what_hooks_fetch_after_the_update_is_no_pull():
    ps = PS.format(0)
    assert parts(*one_step(), (WORKER, "adam", ps, 60, 70)) == STEP | {"other": 40}


def test_decisions_between_two_ps_belong_to_the_update():
    nodes = [*one_step(), (PS.format(1), "adam", PS.format(0), 60, 75)]
    assert parts(*nodes) == STEP | {"update": 27, "other": 25}


def test_a_pause_belongs_to_the_part_before_it_and_the_ends_of_the_call_to_none():
    spans = [Span("ps:0", "a", "Read", 10, 20, "pull"), Span("w", "b", "MatMul", 25, 30, "compute")]
    assert segments_of(spans, 0, 40, 40) == [
        Segment("other", 0, 10), Segment("pull", 10, 25), Segment("compute", 25, 30), Segment("other", 30, 40),
    ]  # fmt: skip


def test_what_starts_with_a_call_is_no_computation():
    assert parts((WORKER, "_SOURCE", "NoOp", 1, 2), (WORKER, "c", "Const", 2, 3), *one_step(at=20)) == STEP | {
        "other": 40
    }


@pytest.mark.parametrize(("expected_end", "tracing"), [(0, 10), (33, 7), (20, 10), (90, 0)])
def test_time_after_the_expected_end_is_tracings(expected_end, tracing):
    spans = [Span("w", "b", "MatMul", 25, 30, "compute")]
    segments = segments_of(spans, 0, 40, expected_end)
    assert sum(s.end - s.begin for s in segments if s.part == TRACING) == tracing
    assert sum(parts_of(segments).values()) * 1e9 == pytest.approx(40 - tracing)


def test_spans_beyond_the_call_are_cut():
    """A clock that is wrong by its uncertainty must not make the parts longer than the call."""
    spans = [Span("ps:0", "a", "Read", -5, 20, "pull"), Span("ps:0", "b", "Apply", 30, 55, "update")]
    segments = segments_of(spans, 0, 40, 40)
    assert (segments[0].begin, segments[-1].end) == (0, 40)
    assert sum(parts_of(segments).values()) * 1e9 == pytest.approx(40)


def test_a_call_without_spans_is_all_other():
    assert parts_of(segments_of([], 0, 40, 40)) == dict.fromkeys(PARTS, 0.0) | {"other": pytest.approx(40e-9)}


def test_the_type_of_an_operation_with_large_outputs_is_found():
    found = statistics(*one_step())
    for device in found.dev_stats:
        for node in device.node_stats:
            if node.node_name == "next":
                node.timeline_label = f"[cpu 2.1MB 2.1MB] {node.timeline_label}"
    (span,) = [span for span in spans_of(found, "worker:1", {}) if span.name == "next"]
    assert (span.op, span.part) == ("IteratorGetNext", "input")


def test_copies_to_a_device_count_once_where_they_overlap():
    stats = v1.RunMetadata().step_stats
    device = stats.dev_stats.add(device="/job:worker/replica:0/task:1/device:GPU:0/stream:all")
    for name, begin, length in (("a:MEMCPYHtoD", 100, 50), ("b:MemcpyH2D", 120, 50), ("c:MEMCPYDtoH", 0, 900)):
        device.node_stats.add(node_name=name, all_start_micros=begin, all_end_rel_micros=length)
    device.node_stats.add(
        node_name="d", timeline_label="MEMCPYHtoD 4 bytes", all_start_micros=500, all_end_rel_micros=30
    )
    assert copy_secs(stats) == pytest.approx(100e-6)
    assert copy_secs(v1.RunMetadata().step_stats) == 0.0


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("dense/MatMul", ""),
        ("step_3/dense/MatMul", "step_3"),
        ("rounds_2_32/33/dense/MatMul", "rounds_2_32/33"),
        ("ConstantFolding/rounds_2_32/33/dense/Const", "rounds_2_32/33"),
        ("rounds_2_32/33/pull_after/Identity", "rounds_2_32/33/pull_after"),
        ("pull_after/Identity", "pull_after"),
    ],
)
def test_the_section_of_an_operation_is_in_its_name(name: str, copy: str) -> None:
    assert copy_of(name) == copy


def test_a_loop_of_local_steps_is_divided_as_the_last_step_of_its_round():
    """TensorFlow does not trace what is in it."""
    nodes = [(d, n, op, 40 + b, 40 + e) for d, n, op, b, e in one_step("rounds_1_4/5/")]
    found = parts((WORKER, "rounds_1_4/2/local", "While", 0, 40), *nodes)
    assert found == STEP | {"input": 5 + 10, "compute": 15 + 30}
    assert parts((WORKER, "front", "While", 0, 100)) == {"input": 100}, "it reads the batches of a round"
    assert parts((WORKER, "local", "While", 0, 100)) == {"compute": 100}
    assert parts((WORKER, "model/while", "While", 0, 100)) == {"compute": 100}, "one of the model's own"
