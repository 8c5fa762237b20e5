"""The models that ship."""
