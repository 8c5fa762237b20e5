"""Small programs of TensorFlow 1, which tests/process/test_programs.py runs as they are."""
