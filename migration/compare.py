"""Compares two folders of expected/*.json, or of the same form: `compare.py ONE OTHER [--numbers]`.

Prints every place where they differ. With --numbers, names are passed over that a renaming may change: names of tensors
(`by_name`, `in_order`), of metrics and their signatures, of candidates, and of what cleaning counts; the numbers still are
compared, in their order.
"""

import json
import sys
from pathlib import Path

NAMES = {"by_name", "in_order", "chosen"}
BY_POSITION = {"scores", "validations", "candidates", "cleaning", "report"}


def plain(value):
    """The leaves in order, without keys, where only numbers matter."""
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in plain(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in plain(one)]
    return [value] if not isinstance(value, str) or value.lstrip("-").startswith("0x") else []


def differences(one, other, where, numbers):
    if numbers and where and where[-1] in NAMES:
        return
    if numbers and where and where[-1] in BY_POSITION and where[0] in ("train", "report"):
        one, other = plain(one), plain(other)
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                yield (*where, key), "missing in the first" if key not in one else "missing in the second", ""
            else:
                yield from differences(one[key], other[key], (*where, key), numbers)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other)):
            yield from differences(*pair, (*where, str(number)), numbers)
    elif one != other:
        yield where, one, other


def main(first, second, *flags):
    names = sorted({path.name for folder in (first, second) for path in Path(folder).glob("*.json")})
    wrong = 0
    for name in names:
        both = [Path(folder) / name for folder in (first, second)]
        if not all(path.exists() for path in both):
            print(f"{name}: in one folder only")
            wrong += 1
            continue
        found = list(
            differences(*(json.loads(path.read_text(encoding="utf-8")) for path in both), (), "--numbers" in flags)
        )
        wrong += bool(found)
        print(f"{name}: {f'{len(found)} differences' if found else 'identical'}")
        for where, one, other in found[:5]:
            print(f"    {'.'.join(where)}: {str(one)[:90]} | {str(other)[:90]}")
    print(f"{len(names)} files, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
