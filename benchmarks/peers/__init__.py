"""Programs that train the same workloads by other means, each as a user would write it today.

They know nothing of the benchmark but how to say where they are; see `peers/speech.py`.
"""
