"""One file an output; ``words``, ``view``, ``describe`` and ``headline`` are what they share."""
