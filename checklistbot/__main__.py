"""``python -m checklistbot``."""

import sys

from checklistbot.cli import main

sys.exit(main())
