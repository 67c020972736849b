"""Optional packages, each in a file of its own, imported when it is used."""
