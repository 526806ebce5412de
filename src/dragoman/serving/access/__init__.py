"""Who may ask for how much: keys, limits and quotas."""
