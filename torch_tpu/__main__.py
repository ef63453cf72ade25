# SPDX-License-Identifier: Apache-2.0
"""``python -m torch_tpu``: tools for the command line."""

import argparse
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_tpu", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="report versions, runtime, devices and what is wrong")
    parser.parse_args()

    from torch_tpu import doctor

    return doctor.run()


if __name__ == "__main__":
    sys.exit(main())
