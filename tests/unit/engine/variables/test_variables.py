"""Names of slices and of optimizers' variables in a checkpoint: they do not depend on the number of ps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.gradients.apply_gradients import OptimizerGroups
from ps_train.engine.variables.plan import Plan, VariableSpec, make_plan
from ps_train.engine.variables.variables import (
    OptimizerVariable,
    checkpoint_entries,
    is_ps_device,
    on_worker,
    plan_device_setter,
    ps_device,
)


def variable(name: str, *shape: int) -> Any:
    return v1.get_variable(name, shape, use_resource=True)


def stored(
    plan: Plan, own: dict[int, dict[str, list[tuple[str, tuple[int, ...]]]]]
) -> dict[str, list[tuple[str, Any]]]:
    """Key to the slices and names of the variables that have it; `own` as for `stored_variables`, by name and shape."""
    with tf.Graph().as_default():
        variables = {piece.name: variable(piece.name, *piece.shape) for piece in plan.slices}
        made = {
            ps: {
                group: [OptimizerVariable(variable(name, *shape), name) for name, shape in some]
                for group, some in groups.items()
            }
            for ps, groups in own.items()
        }
        found: dict[str, list[tuple[str, Any]]] = {}
        keys = OptimizerGroups({}, str)
        for one in checkpoint_entries(plan, variables, made, keys.key_of, keys.slot_key_of):
            name = f"{one.variable.op.name} (follower)" if one.follower else one.variable.op.name
            found.setdefault(one.key, []).append((one.slice_spec, name))
        return found


def in_two_slices() -> Plan:
    return make_plan([VariableSpec("w", (7, 3), "float32", 4)], num_ps=2)


KINDS: dict[str, tuple[int, ...]] = {"Adam": (3,), "by_row": (), "wide": (3, 2)}


def test_slices_and_slots_of_their_rows_are_slices_of_whole_tensors() -> None:
    slots = {
        ps: {
            "": [
                (f"w/part_{ps}/Adam", (rows, 3)),
                (f"w/part_{ps}/by_row", (rows,)),
                (f"w/part_{ps}/wide", (rows, 3, 2)),
            ]
        }
        for ps, rows in ((0, 4), (1, 3))
    }
    assert stored(in_two_slices(), slots) == {
        "w": [("7 3 0,4:0,3", "w/part_0"), ("7 3 4,3:0,3", "w/part_1")],
        "w/Adam": [("7 3 0,4:0,3", "w/part_0/Adam"), ("7 3 4,3:0,3", "w/part_1/Adam")],
        "w/by_row": [("7 0,4", "w/part_0/by_row"), ("7 4,3", "w/part_1/by_row")],
        "w/wide": [("7 3 2 0,4:0,3:0,2", "w/part_0/wide"), ("7 3 2 4,3:0,3:0,2", "w/part_1/wide")],
    }


def test_a_slot_that_is_not_made_of_rows_belongs_to_its_slice_alone() -> None:
    slots = {ps: {"": [(f"w/part_{ps}/scale", ()), (f"w/part_{ps}/basis", (9, 9))]} for ps in (0, 1)}
    found = stored(in_two_slices(), slots)
    assert {key: slices for key, slices in found.items() if key != "w"} == {
        f"w/part_{ps}/{kind}": [("", f"w/part_{ps}/{kind}")] for ps in (0, 1) for kind in ("scale", "basis")
    }


def test_a_whole_variable_has_no_slices_whatever_its_slots_are() -> None:
    plan = make_plan([VariableSpec("w", (7, 3), "float32", 4)], num_ps=1)
    found = stored(plan, {0: {"": [("w/Adam", (7, 3)), ("w/scale", ())]}})
    assert found == {"w": [("", "w")], "w/Adam": [("", "w/Adam")], "w/scale": [("", "w/scale")]}


def test_what_every_ps_has_once_is_saved_from_the_first_for_any_number_of_ps_and_groups_stay_apart() -> None:
    own = {0: {"": [("power", ())], "deep/": [("power_1", ())]}, 1: {"": [("power_2", ())], "deep/": [("power_3", ())]}}
    found = stored(in_two_slices(), own)
    assert found["power"] == [("", "power"), ("", "power_2 (follower)")]
    assert found["deep/power"] == [("", "power_1"), ("", "power_3 (follower)")]
    assert found["ps_train/of_ps/1_of_2/power"] == [("", "power_2")]
    assert found["ps_train/of_ps/1_of_2/deep/power"] == [("", "power_3")]


def test_the_device_setter_follows_the_plan_and_leaves_other_operations_to_the_worker() -> None:
    plan = make_plan([VariableSpec("large", (40, 8), "float32", 4), VariableSpec("small", (2,), "float32", 4)], 3, 64)
    with tf.Graph().as_default(), v1.device(plan_device_setter(plan, "/job:worker/task:1")):
        for piece in plan.slices:
            variable = v1.get_variable(piece.name, piece.shape, use_resource=True)
            assert variable.device == ps_device(piece.ps)
        assert tf.constant(1).device == "/job:worker/task:1"
    assert {piece.ps for piece in plan.slices} == {0, 1, 2}


def test_the_scope_of_a_worker_that_is_a_ps_leaves_cpu_0_to_the_ps_and_to_datasets() -> None:
    own = "/job:ps/replica:0/task:1"
    with tf.Graph().as_default(), on_worker(f"{own}/device:CPU:1"):
        with v1.device("/cpu:0"):
            of_model, numbers = tf.constant(1), tf.data.Dataset.range(3)
        with v1.device("/gpu:0"):
            of_gpu = tf.constant(2)
        with v1.device(ps_device(0)):
            of_ps = tf.constant(3)
        found = [tf.constant(0), of_model, of_gpu, of_ps]
        devices = [one.op.device for one in found]
        assert devices == [f"{own}/device:CPU:1", f"{own}/device:CPU:1", f"{own}/device:GPU:0", ps_device(0)]
        assert numbers._variant_tensor.op.device == ps_device(1)
        assert [is_ps_device(tf.DeviceSpec.from_string(device)) for device in devices] == [False, False, False, True]


def test_the_scope_of_another_worker_is_its_device() -> None:
    with tf.Graph().as_default(), on_worker("/job:worker/replica:0/task:1"), v1.device("/cpu:0"):
        assert tf.constant(1).op.device == "/job:worker/replica:0/task:1/device:CPU:0"
