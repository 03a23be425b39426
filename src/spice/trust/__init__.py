"""How far to trust the groups: pure functions on arrays, without torch and without files."""
