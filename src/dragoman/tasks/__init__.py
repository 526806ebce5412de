"""The tasks, one file each: what is read, what is learnt, how it is judged, and what it is used as."""
