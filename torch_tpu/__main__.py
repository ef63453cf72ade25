# SPDX-License-Identifier: Apache-2.0
"""``python -m torch_tpu``: tools for the command line."""

import argparse
import sys

from torch_tpu import cache_command


def _doctor(arguments: argparse.Namespace) -> int:
    from torch_tpu import doctor

    return doctor.run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_tpu", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="report versions, runtime, devices, what is wrong")
    doctor.set_defaults(run=_doctor)
    cache_command.add_parser(commands)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # `| head`
        sys.exit(0)
