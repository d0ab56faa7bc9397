"""Chat models: resolving a name to one, endpoints, the local model, prices, scripted models."""
