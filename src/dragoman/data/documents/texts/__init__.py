"""Documents without markup or with little: plain text and subtitles."""
