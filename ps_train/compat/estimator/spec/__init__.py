"""The values of the Estimator API: configurations, specifications, exporters."""
