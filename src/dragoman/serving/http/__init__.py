"""HTTP around every request: bodies, answers, errors, streams, the log and the pages."""
