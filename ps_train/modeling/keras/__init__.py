"""Keras models: a compiled model as a source of gradients, and its optimizer as a source of update rules."""
