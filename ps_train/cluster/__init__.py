"""The processes of a job: their addresses, whether they answer, their servers, and what they tell one another."""
