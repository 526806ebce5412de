"""The room where everything meets: a run on disk, built, trained and loaded."""
