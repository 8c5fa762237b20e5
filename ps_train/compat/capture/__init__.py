"""Programs that bring a model_fn: captured for the engine, or trained with TensorFlow's own means."""
