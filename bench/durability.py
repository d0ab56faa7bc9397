"""All that is measured of long and durable runs, one after the other: a quarter of an hour, and 10 GB of disk.

    python bench/durability.py              the tables
    python bench/durability.py --write      into docs/benchmarks.md

What a long thread takes to keep (``checkpoints.py``), what the ledger costs for each call (``ledger.py``), the prompt
tokens of a long run (``window.py``). Each can be run alone, and takes options then.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = ["--write"] if parser.parse_args().write else []
    for name in ("window.py", "ledger.py", "checkpoints.py"):
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, str(Path(__file__).with_name(name)), *options], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
