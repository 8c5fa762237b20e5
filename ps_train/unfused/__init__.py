"""Training of Estimator programs with TensorFlow's own means, and sessions for evaluation and prediction."""
