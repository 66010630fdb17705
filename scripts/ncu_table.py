#!/usr/bin/env python3
"""A table per stage from an Nsight Compute export: time, DRAM bandwidth, L2 hit rate, occupancy, share of the roof.

  ncu --import REPORT.ncu-rep --csv --page raw --print-units base > export.csv
  ncu_table.py export.csv --roof 4200 --roof gather=4984 [--md]

Rows are the stages of the NVTX domain `sdm-bench` in the order of their first kernel; a kernel outside every stage goes under its
own name. Times and bytes are sums over the kernels, hit rate and occupancy their means weighted by time. --roof gives GB/s for
all stages or for one; without it the last column stays out. Times of a profiled kernel are longer than in a run of its own.
"""
import argparse
import csv
import sys

TIME = "gpu__time_duration.sum"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
L2_HIT = "lts__t_sector_hit_rate.pct"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = [TIME, READ, WRITTEN, L2_HIT, OCCUPANCY]

UNITS = {
    "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0,
    "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 1.0, "": 1.0,
}
DOMAIN = "sdm-bench"
OUTER = {"measure", "warmup"}
PASSES = {"fwd": "forward", "bwd": "backward"}


class BadExport(Exception):
    """What is wrong with the file, in one sentence."""


def read_rows(lines):
    """Kernels as dictionaries; columns of METRICS as numbers in seconds, bytes and percent."""
    lines = list(lines)
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise BadExport('no header that starts with "ID": export with --csv --page raw')
    table = list(csv.reader(lines[start:]))
    header, units, kernels = table[0], table[1] if len(table) > 1 else [], table[2:]
    missing = [metric for metric in METRICS if metric not in header]
    if missing:
        raise BadExport("the export lacks %s: profile with --metrics %s" % (", ".join(missing), ",".join(METRICS)))
    rows = []
    for number, kernel in enumerate(kernels):
        if not kernel:
            continue
        row = dict(zip(header, kernel))
        for metric in METRICS:
            unit = units[header.index(metric)]
            if unit not in UNITS:
                raise BadExport("%s is in '%s'; known units: %s" % (metric, unit, ", ".join(u for u in UNITS if u)))
            try:
                row[metric] = float(row[metric].replace(",", "")) * UNITS[unit]
            except (KeyError, ValueError):
                raise BadExport("kernel %d has no number under %s" % (number, metric)) from None
        rows.append(row)
    return rows


def ranges_of(row):
    """The names on the range stack, from a column such as: 7  "sdm-bench:measure:none:..:none" "sdm-bench:gather:none:.." """
    column = next((name for name in row if name and "Push/Pop_Range" in name), None)
    names = []
    for part in (row[column] if column else "").split('"')[1::2]:
        fields = part.split(":")
        if fields[0] == DOMAIN and len(fields) >= 8:
            names.append(":".join(fields[1:-6]))  # a case id may hold colons
    return names


def place_of(row):
    """(pass, stage) of a kernel."""
    names = ranges_of(row)
    pass_name = next((PASSES[name] for name in names if name in PASSES), "")
    stages = [n for n in names if n not in PASSES and n not in OUTER and not n.startswith("case:")]
    return pass_name, stages[-1] if stages else row.get("Kernel Name", "?")


def summarize(rows):
    stages = {}
    for row in rows:
        sums = stages.setdefault(place_of(row), {"kernels": 0, "time": 0.0, "bytes": 0.0, "hit": 0.0, "occupancy": 0.0})
        seconds = row[TIME]
        sums["kernels"] += 1
        sums["time"] += seconds
        sums["bytes"] += row[READ] + row[WRITTEN]
        sums["hit"] += row[L2_HIT] * seconds
        sums["occupancy"] += row[OCCUPANCY] * seconds
    return stages


def read_roofs(texts):
    roofs = {}
    for text in texts:
        stage, _, value = text.rpartition("=")
        try:
            roofs[stage] = float(value)
        except ValueError:
            raise BadExport("--roof %s: expected GB/s, or stage=GB/s" % text) from None
        if not roofs[stage] > 0:
            raise BadExport("--roof %s: must be above 0" % text)
    return roofs


def table_of(stages, roofs):
    header = ["pass", "stage", "kernels", "time us", "DRAM GB/s", "L2 hit %", "occupancy %"] + (["roof %"] if roofs else [])
    lines = [header]
    for (pass_name, stage), sums in stages.items():
        seconds = sums["time"]
        rate = sums["bytes"] / seconds / 1e9 if seconds > 0 else 0.0
        mean = lambda name: sums[name] / seconds if seconds > 0 else 0.0
        line = [pass_name, stage, str(sums["kernels"]), "%.1f" % (seconds * 1e6), "%.0f" % rate, "%.1f" % mean("hit"), "%.1f" % mean("occupancy")]
        if roofs:
            roof = roofs.get(stage, roofs.get(""))
            line.append("%.0f" % (100 * rate / roof) if roof else "")
        lines.append(line)
    return lines


def text_of(lines, markdown):
    if markdown:
        rule = "|:--|:--|" + "--:|" * (len(lines[0]) - 2)
        rows = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([rows[0], rule] + rows[1:])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    align = lambda i, cell: cell.ljust(widths[i]) if i < 2 else cell.rjust(widths[i])
    return "\n".join("  ".join(align(i, cell) for i, cell in enumerate(line)).rstrip() for line in lines)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", nargs="?", help="the CSV file; - is stdin")
    parser.add_argument("--roof", action="append", default=[], metavar="[STAGE=]GB/s")
    parser.add_argument("--md", action="store_true", help="a Markdown table")
    parser.add_argument("--metrics", action="store_true", help="print the metrics to profile with, and end")
    options = parser.parse_args(argv)
    if options.metrics:
        print(",".join(METRICS))
        return 0
    if not options.export:
        parser.error("the export is missing")
    try:
        if options.export == "-":
            rows = read_rows(sys.stdin)
        else:
            with open(options.export, encoding="utf-8", newline="") as file:
                rows = read_rows(file)
        if not rows:
            raise BadExport("the export holds no kernel: does the NVTX filter match?")
        print(text_of(table_of(summarize(rows), read_roofs(options.roof)), options.md))
    except (BadExport, OSError) as error:
        print("ncu_table.py: %s: %s" % (options.export, error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
