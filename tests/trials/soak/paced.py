"""The model of a long soak test: a step takes some milliseconds, so that the job leaves the machine to others."""

from __future__ import annotations

from tests.support.models import small

_SECS = 0.006


class Paced(small.Linear):
    """The same model, whose features come some milliseconds later."""

    def forward(self, features, training):
        return super().forward(small.paced(features, _SECS), training)
