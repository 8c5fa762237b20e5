"""Shapes of models, each of which trains as in one plain TensorFlow session."""

from __future__ import annotations

from tests.support.models.zoo import control, inputs, kinds, layers, recurrent, schedules, state
from tests.support.models.zoo.shape import Shape

ZOO: dict[str, Shape] = {
    shape.name: shape for room in (layers, control, state, schedules, inputs, kinds, recurrent) for shape in room.SHAPES
}
