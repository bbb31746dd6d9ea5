"""One file a format; each finds the launch commands of its format. The registry is the folder."""
