"""The explorer, `spice open`: a page on which groups are looked at, named, merged, split and corrected.

Opens without torch. What needs it (an example image, learning) is handed in by the command as functions.
"""
