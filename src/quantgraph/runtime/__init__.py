"""What every node and agent stands on: running a node, building an agent, events, questions, endings."""
