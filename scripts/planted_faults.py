#!/usr/bin/env python3
"""Plants every fault of docs/planted_faults.md, one after the other, and says whether the check that claims it noticed.

usage: planted_faults.py [SDM_BENCH] [run's own flags, for example --device cuda]
Exit code: 0 where every fault was noticed (or its check needs a GPU that is not there), else 1.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def table():
    """(fault, check, "GPU" or "") of every row of the document's table of the option."""
    row = re.compile(r"^\| `(\w+)` \|.*\| `(-*\w+)` \| (\w*) ?\|$")
    text = (ROOT / "docs" / "planted_faults.md").read_text(encoding="utf-8")
    return [match.groups() for match in map(row.match, text.splitlines()) if match]


def run(bench, check, fault, flags):
    command = [bench, "run", str(ROOT / "configs" / "planted.json"), "--filter", f"/{check}$", "--no-timing", "-q",
               "--format", "json", *flags] + (["--plant", fault] if fault else [])
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        document = json.loads(done.stdout)
        result = document["cases"][0]["checks"][0]
        return result["status"], result["detail"], document["devices"][0]["kind"] == "cuda"
    except (ValueError, IndexError, KeyError):
        return "error", done.stderr.strip().splitlines()[-1] if done.stderr else f"exit code {done.returncode}", False


def run_isolated(bench, fault, flags):
    """Three cases, a process each, the middle one spoiled: (noticed, what was said)."""
    command = [bench, "run", str(ROOT / "configs" / "planted.json"), "--filter", "/(replay|guards|poison)$", "--isolate",
               "--no-timing", "-q", "--format", "json", "--plant", fault, "--plant-in", "/guards$",
               "--set", "timing.case_timeout_seconds=10", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        cases = json.loads(done.stdout)["cases"]
    except ValueError:
        return False, f"exit code {done.returncode}: {done.stderr.strip()}"
    statuses = [case["status"] for case in cases]
    noticed = done.returncode == 5 and statuses[::2] == ["ok", "ok"] and statuses[1] in ("error", "timeout")
    return noticed, f"{', '.join(statuses)}: {cases[1]['reason']}"


def main():
    bench = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "cpu" / "sdm-bench")
    flags = sys.argv[2:]
    rows, wrong = table(), 0
    for check in sorted({check for _, check, _ in rows if check != "--isolate"}):
        status, detail, _ = run(bench, check, None, flags)
        wrong += status not in ("passed", "skipped")
        print(f"{'honest':<20} {check:<14} {status:<8} {detail}")
    for fault, check, needs in rows:
        if check == "--isolate":
            noticed, detail = run_isolated(bench, fault, flags)
            wrong += not noticed
            print(f"{fault:<20} {check:<14} {'noticed' if noticed else 'MISSED':<8} {detail}")
            continue
        status, detail, on_gpu = run(bench, check, fault, flags)
        excused = needs == "GPU" and not on_gpu and status != "error"
        wrong += status != "failed" and not excused
        word = "noticed" if status == "failed" else "no GPU" if excused else "MISSED"
        print(f"{fault:<20} {check:<14} {word:<8} {detail}")
    print(f"{len(rows)} faults, {wrong} wrong")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
