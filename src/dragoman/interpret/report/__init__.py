"""HTML reports in one file, which works offline."""
