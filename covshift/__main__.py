"""`python -m covshift` is the command `covshift`."""

import sys

from covshift.cli import main

if __name__ == "__main__":
    sys.exit(main())
