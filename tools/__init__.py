"""The tools, one file each, and the layer that runs them."""
