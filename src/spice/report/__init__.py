"""From the files of a run to a page and figures. Opens without torch."""
