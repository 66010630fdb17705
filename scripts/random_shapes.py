#!/usr/bin/env python3
"""Prints a config of random small shapes, types and distributions, with every check that compares bits: what no list of corner
shapes has thought of. On a GPU every exact variant is held against the replay and the fp64 oracle, in all geometries and launch modes.

usage: random_shapes.py [CASES [SEED]] > shapes.json      (default 40 cases; without SEED the time's, printed in the config's name)
       sdm-bench run shapes.json --no-timing
"""
import json
import random
import sys
import time

MOST_ENTRIES = 40_000  # written and read in all, so that a case takes the replay well under a second


def head_dim(draw):
    """Half of them whole 16-byte vectors of bf16; narrow, of several slices, and wide ones."""
    most = draw.choice([40, 160, 600, 1400])
    return draw.choice([draw.randint(1, most), 8 * draw.randint(1, most // 8)])


def distribution(draw, entries, slots):
    kind = draw.choice(["uniform", "uniform", "sequential", "zipf", "hot"])
    if kind == "zipf":
        return {"kind": kind, "s": round(draw.uniform(0.5, 1.6), 2)}
    if kind == "hot":
        return {"kind": kind, "slots": draw.randint(entries, min(slots, 4 * entries))}
    return {"kind": kind}


def workload(draw):
    bank = draw.choice(["bf16", "f32"])
    snapshots = ["per_entry", "raw", "fp8", "int4"] + (["bf16"] if bank == "f32" else [])
    writes, reads = (draw.choice([draw.randint(1, 12), draw.randint(1, 40)]) for _ in range(2))
    streams = draw.randint(1, 5)
    chunk = min(256, draw.choice([draw.randint(2, 40), 4 * draw.randint(1, 64)]))
    tokens = max(1, min(draw.randint(1, 3 * chunk), MOST_ENTRIES // (streams * (writes + reads))))
    entries = max(writes, reads)
    slots = entries + draw.choice([draw.randint(0, 60), draw.randint(0, 5000)])
    return {
        "streams": streams, "tokens": tokens, "chunk": chunk, "writes": writes, "reads": reads, "head_dim": head_dim(draw),
        "slots": slots, "bank_dtype": bank, "value_dtype": draw.choice(["f32", "bf16"]), "grad_dtype": draw.choice(["bank", "f32"]),
        "weight_dtype": draw.choice(["f32", "bf16"]), "index_dtype": draw.choice(["i32", "i64"]), "gate": draw.choice(["token", "write"]),
        "snapshot": draw.choice(snapshots), "final_bank_gradient": draw.random() < 0.5,
        "distribution": distribution(draw, entries, slots), "seed": draw.randint(1, 1_000_000),
    }


def config(cases, seed):
    draw = random.Random(seed)
    return {
        "schema": 1,
        "name": f"random_shapes_{seed}",
        "workload": {"kind": "sparse"},
        "checks": ["guards", "bank_restored", {"replay": {"lockstep": True}}, {"repeat": {"runs": 2}}, {"oracle": {"round_bank": True}},
                   "agree", "invariance"],
        "cases": [{"name": f"shape_{i}", "workload": workload(draw)} for i in range(cases)],
    }


def main(arguments):
    if len(arguments) > 2 or not all(a.isdecimal() and int(a) > 0 for a in arguments):
        sys.exit(__doc__)
    cases = int(arguments[0]) if arguments else 40
    seed = int(arguments[1]) if len(arguments) > 1 else int(time.time())
    json.dump(config(cases, seed), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
