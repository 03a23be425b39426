"""The explorer, `spice open`: a page to look at groups, name, merge, split and correct them.

Opens without torch. What needs it (an example image, learning) is handed in by the command as functions.
"""
