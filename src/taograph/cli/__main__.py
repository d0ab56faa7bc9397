"""``python -m taograph.cli``, where the script ``tao`` is not on the path."""

import sys

from taograph.cli import main

sys.exit(main())
