"""The explorer, `spice open`: a page to browse groups, and to name, merge, split and correct them.

Works without torch. The command passes in the functions that need it, such as learning.
"""
