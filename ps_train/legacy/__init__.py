"""Raw TensorFlow 1 scripts: the classic names of tf.train, and a facade of the modules that TensorFlow has lost."""
