"""The explorer. Opens without torch."""
