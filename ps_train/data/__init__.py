"""From files to the batches of one replica; one reader a file."""
