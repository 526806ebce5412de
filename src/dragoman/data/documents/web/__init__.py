"""Documents of the web: HTML pages and Markdown."""
