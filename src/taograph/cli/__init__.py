"""The command `tao`."""
