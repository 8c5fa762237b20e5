"""What `probe.py` sends; apart from it, because who listens to it imports no TensorFlow."""

SMALL_TENSORS = 64
LARGE_BYTES = 1 << 20
