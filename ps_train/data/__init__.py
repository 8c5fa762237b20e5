"""The input: from files to the batches of one replica, with one module for each file format."""
