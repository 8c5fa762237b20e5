"""ps_train side by side with the recipe that users have today, and with its peers: `python -m benchmarks --help`."""
