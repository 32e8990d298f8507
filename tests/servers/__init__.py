"""Real servers for tests, each started from a package and gone at the end."""
