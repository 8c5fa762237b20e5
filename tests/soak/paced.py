"""The model of a long soak test: a step takes some milliseconds, so that the job leaves the machine to others."""

from __future__ import annotations

from tests.support import models

_SECS = 0.006


class Paced(models.Linear):
    """The same model, whose features come some milliseconds later."""

    def forward(self, features, training):
        return super().forward(models.paced(features, _SECS), training)
