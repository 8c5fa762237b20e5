"""Finds the variables of a model, plans where they live, and makes them on their ps."""
