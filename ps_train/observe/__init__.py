"""Observation of a job: progress, event files, the status page, health, profiles and the result."""
