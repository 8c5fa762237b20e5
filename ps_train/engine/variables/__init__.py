"""A model's variables: their trace, the plan of their places, and their creation on the ps."""
