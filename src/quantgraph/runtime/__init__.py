"""The base of every node and agent: running a node, building an agent, events, questions, endings."""
