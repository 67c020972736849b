"""`python -m deeplimits.cli`, where the script is not on the path."""

import sys

from deeplimits.cli.app import main

sys.exit(main())
