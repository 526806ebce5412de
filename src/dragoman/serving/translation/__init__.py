"""Translation of the texts of a request: languages, models, markup and documents."""
