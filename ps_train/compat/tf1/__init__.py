"""TensorFlow 1 scripts: their launcher, and a facade of the modules that TensorFlow has lost."""
