"""Data that a domain expert edits without Python, and its typed readers. One advisory a file; the registry is the folder."""
