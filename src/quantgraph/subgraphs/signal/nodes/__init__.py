"""The nodes of the signal subgraph, one file each, with the node's prompt."""
