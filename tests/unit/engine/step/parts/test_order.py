"""The parts that a job asks for, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.engine.step.parts.event_cut_table import EventCutTable
from ps_train.engine.step.parts.following import FollowingBatchSize, FollowingPushCodec, FollowingWaitLimit, ScaledRate
from ps_train.engine.step.parts.input_end import InputEnd
from ps_train.engine.step.parts.local_steps import FollowingLocalSteps, LocalSteps
from ps_train.engine.step.parts.loss_scaling import LossScaling
from ps_train.engine.step.parts.order import parts_of
from ps_train.engine.step.parts.pull_ahead import PullAhead
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.engine.step.parts.pushed_state import StateOfModel
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.parts.step_part import StepPart
from ps_train.engine.step.parts.transforms import Transforms
from ps_train.engine.step.parts.warm_up import WarmUp
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.updates.modes.factory import make_update
from ps_train.modeling.model import Model
from tests.support.graphs.steps import Averaging, spec_of
from tests.support.models.small import Linear


class Feature(StepPart):
    """A part that the job alone does not give."""


def kinds(model: Model | None = None, features: Any = (), **fields: Any) -> list[type]:
    spec = spec_of(model or Linear(), replica=Replica(0, 20, 20), **fields)
    return [type(part) for part in parts_of(spec, make_update(spec.job, 20), features)]


JOBS = [
    ({}, []),
    ({"warmup_steps": 5}, [WarmUp]),
    ({"clip_norm": 1.0}, [Transforms]),
    ({"l2": 0.1}, [Transforms]),
    ({"compute_dtype": "float16"}, [LossScaling]),
    ({"compute_dtype": "bfloat16"}, []),
    ({"push_codec": "int8"}, [PushCodec]),
    ({"push_codec": "auto"}, [FollowingPushCodec]),
    ({"prefetch_pulls": 1, "steps_per_run": "8"}, [PullAhead]),
    ({"batch_size": "4..16"}, [FollowingBatchSize]),
    ({"batch_size": "4..16", "scale_learning_rate": "sqrt"}, [ScaledRate, FollowingBatchSize]),
    ({"local_steps": 4, "warmup_steps": 5, "l2": 0.1}, [LocalSteps, Transforms]),
    ({"local_steps": "auto"}, [FollowingLocalSteps]),
    ({"outer_optimizer": "sgd"}, [LocalSteps]),
    ({"update": "bounded", "max_steps_ahead": "0..2"}, [FollowingWaitLimit]),
    ({"update": "bounded", "max_steps_ahead": "2"}, []),
    ({"update": "sync", "backup_workers": "auto"}, [FollowingWaitLimit]),
    ({"update": "sync", "backup_workers": "1"}, []),
    ({"sharding": "dynamic"}, [Sharding]),
    ({"sharding": "dynamic", "save_event_secs": 60.0, "model_dir": "/tmp/no"}, [Sharding, EventCutTable]),
]


@pytest.mark.parametrize(("fields", "parts"), JOBS, ids=lambda one: "+".join(one) if isinstance(one, dict) else "")
def test_each_flag_has_its_part(fields: dict[str, Any], parts: list[type]) -> None:
    assert kinds(**fields) == parts
    assert kinds(features=[Feature()], **fields) == [*parts, Feature], "a rack is next to the ps"


def test_many_parts_are_in_the_order_that_their_reasons_demand() -> None:
    fields = {"warmup_steps": 5, "clip_value": 1.0, "compute_dtype": "float16", "batch_size": "4..16"}
    found = kinds(Averaging(), [Feature()], sharding="dynamic", push_codec="bfloat16", **fields)
    assert found == [WarmUp, Transforms, LossScaling, FollowingBatchSize, PushCodec, StateOfModel, Sharding, Feature]
    found = kinds(
        features=[], prefetch_pulls=1, steps_per_run="8", warmup_steps=5, push_codec="auto", batch_size="4..16"
    )
    assert found == [PullAhead, WarmUp, FollowingBatchSize, FollowingPushCodec]


def test_state_of_a_model_is_never_pulled_ahead(caplog: pytest.LogCaptureFixture) -> None:
    assert kinds(Averaging()) == [StateOfModel]
    assert kinds(Averaging(), prefetch_pulls=1, steps_per_run="8") == [StateOfModel]
    (record,) = caplog.records
    assert "prefetch_pulls=1 has no effect: the model assigns" in record.message and "most" in record.message


class EndingItself(Linear):
    ends_itself = True


def test_a_model_that_finds_the_end_of_its_input_has_its_part() -> None:
    assert kinds(EndingItself(), warmup_steps=5, clip_norm=1.0) == [WarmUp, InputEnd, Transforms]
