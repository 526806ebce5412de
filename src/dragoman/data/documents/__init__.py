"""Files that are translated in place: their texts are units, whose translations are written into the same file."""
