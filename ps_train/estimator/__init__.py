"""The Estimator API on the engine of ps_train."""
