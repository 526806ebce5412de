"""Where a token stands: absolute positions join its embedding, relative ones act inside self-attention."""
