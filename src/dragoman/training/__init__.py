"""Learning the weights. Search and scores of strings are handed in; this room knows neither."""
