"""What the tools are built on: code that is more than one file wants to hold, and knows nothing of tools."""
