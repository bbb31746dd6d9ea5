"""A small reader of shell scripts: walks them as bash would, executes nothing, and says unknown where only a run could tell."""
