"""Results of evaluations, for the hooks and exporters of Estimators; see `hooks/eval_events.py`.

read_eval_metrics("/models/run1/eval")      # {1000: {"loss": 0.4, "auc": 0.7}, 2000: ...}
"""

from __future__ import annotations

from ps_train.hooks.eval_events import read_eval_metrics

__all__ = ["read_eval_metrics"]
