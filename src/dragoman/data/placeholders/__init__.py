"""Placeholders of user interface texts: recognized, replaced by stand-ins, and put back; ICU messages."""
