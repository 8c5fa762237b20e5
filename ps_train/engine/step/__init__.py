"""The graphs of one replica: the training step and the evaluation, built from a model and a plan."""
