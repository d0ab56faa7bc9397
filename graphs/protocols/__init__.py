"""How a step is asked for and read."""
