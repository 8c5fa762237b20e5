"""From a model to the graph of one replica: trace, plan, variables, transport, step."""
