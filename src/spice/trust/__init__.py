"""How far to trust the groups: pure functions on arrays, without torch or files."""
