"""Maximum spanning arborescences."""
