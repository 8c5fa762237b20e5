"""Codecs: how the numbers of a vector are written for the wire, and read again."""
