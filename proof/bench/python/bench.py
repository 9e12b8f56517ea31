"""`cargo xtask bench python`: the table, or the defects."""

from __future__ import annotations

import argparse
import os
import pathlib
import warnings

HERE = pathlib.Path(__file__).parent


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False)
    parser.error = lambda message: parser.exit(2, f"{message}\n\n{(HERE / 'help.txt').read_text()}")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--rounds", type=rounds)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--defects", action="store_true")
    return parser.parse_args()


def rounds(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1_000:
        raise ValueError(text)
    return number


def main() -> int:
    asked = options()
    # Peers warn of what they will change one day.
    warnings.simplefilter("ignore")
    if asked.defects:
        import defects

        return defects.main()
    import ours
    from measure import Options
    from rows import ROWS

    names = [name for name in ROWS if not asked.only or any(text in name for text in asked.only)]
    if asked.list or not names:
        print("\n".join(ROWS))
        return 0 if names else 2
    how = Options(asked.rounds or 3, 0.005) if asked.quick else Options(asked.rounds or 15)
    load = os.getloadavg()[0]
    print(f"{how.rounds} rounds; {os.cpu_count()} cores; {load:.1f} programs ran or waited in the last minute\n")
    print("| row | ours | theirs | ratio | spread |\n|---|---|---|---|---|", flush=True)
    try:
        for name in names:
            for row in ROWS[name](name, how):
                print(row, flush=True)
    finally:
        ours.tidy()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
