"""The verbs `predict` and `compare`: their flags, their processes and what they print.  Work: `saved/scoring`."""
