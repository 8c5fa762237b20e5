"""TensorFlow's SessionRunHooks, one concern in each file.  They run at the end of a burst of steps, not every step."""
