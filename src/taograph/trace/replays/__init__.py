"""The parts of a replay: what is recorded, what stands in for models and tools, what the graph is, how it compares."""
