"""Small readers of the languages that compute a command: Python, HCL, Nix, PowerShell, Go templates, Jinja.

Nothing of the reviewed tree is executed: each reader walks a parsed tree with a budget of steps, knows a fixed list of pure
functions, reads files only through the ``Tree`` it is given, and turns everything else into an unknown value with a name.
"""
