"""The folder that a run leaves behind. Opens without torch."""
