#!/usr/bin/env python3
"""How the H200 times of a result compare with the published kernels' (spec of the operator, measured on an H200 with launches
replayed as one graph): a Markdown table, microseconds of a whole pass, ratio = published / ours.

  published_ratios.py RESULT.json...

Results are runs of configs/h200_perf.json with timing per stage, hot L2, perhaps swept over workload.snapshot.
"""
import json
import sys

SHAPES = ["default", "small120", "flagship", "flag64", "wide960", "f32_128"]
# stage, snapshot format -> microseconds in the order of SHAPES
PUBLISHED = {
    ("gather", "raw"): [465, 363, 3328, 2803, 1670, 815],
    ("write", "none"): [642, 531, 4579, 2606, 1657, 877],
    ("write", "raw"): [764, 687, 5976, 3712, 2371, 1135],
    ("write", "fp8"): [1011, 712, 11415, 5527, 3112, 1315],
    ("write", "int4"): [1036, 702, 12216, 5548, 3071, 1333],
    ("gather_grad", "raw"): [619, 377, 2804, 2193, 1450, 917],
    ("undo", "raw"): [1415, 1156, 11895, 5512, 3416, 1747],
    ("read_grad", "raw"): [1313, 1056, 9138, 4780, 3150, 1939],
}


def medians(reports):
    """(shape, snapshot, stage) -> (microseconds, variant, percent of roof)"""
    found = {}
    for case in (case for report in reports for case in report["cases"]):
        shape = case["id"].split("/")[1]
        for stage in case["stages"]:
            if stage["l2"] == "hot" and stage["median_us"]:
                variant = case["variants"][stage["name"]]["name"]
                found[shape, case["params"]["snapshot"], stage["name"]] = (stage["median_us"], variant, stage["roof_percent"])
    return found


def cell(published, ours):
    if ours is None:
        return "–"
    return f"{ours[0]:,.0f} ({published / ours[0]:.2f}x, {ours[1]})"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    reports = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    found = medians(reports)
    print("| stage, saving | " + " | ".join(SHAPES) + " |")
    print("|---" * (len(SHAPES) + 1) + "|")
    for (stage, snapshot), published in PUBLISHED.items():
        cells = [cell(p, found.get((shape, snapshot, stage))) for p, shape in zip(published, SHAPES)]
        print(f"| {stage}, {snapshot} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
