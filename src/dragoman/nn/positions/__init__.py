"""Where a token stands: absolute positions, added to its embedding."""
