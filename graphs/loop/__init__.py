"""What every loop shares: state, limits, the stop policy, the three nodes."""
