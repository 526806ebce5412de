"""Access of clients: keys, limits and quotas."""
