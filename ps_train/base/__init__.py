"""This process: its environment, memory, signals and console."""
