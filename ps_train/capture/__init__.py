"""Interception: what a model_fn does with variables, optimizers and lookups is recorded, and the engine does it."""
