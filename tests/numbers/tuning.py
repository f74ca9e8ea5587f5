#!/usr/bin/env python3
"""Tunes a marking curve on some workloads, and tries it on others beside the curves that fabrics have by default.

    tests/numbers/tuning.py OUT [--wireyard target/release/wireyard] [--budget 640] [--jobs 2]

`wireyard lab tune programs/lab/studies/tuning.yaml`, then `wireyard lab sweep` of programs/lab/studies/unseen.yaml with the best setting as one
more curve. For each workload it prints the mean of the goal over the seeds for each curve. Exit status 0: the tuned curve is the best on at least
8 of 10 workloads. The same build gives the same numbers.
"""

import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
STUDIES = HERE / "programs/lab/studies"
GOAL = "flows.slowdown_p99"
CURVE = "switch.qos.wred_profiles.ROCE.green"


def best(folder):
    """Values of the best setting, by the last part of their keys."""
    report = json.loads((folder / "report.json").read_text())
    (table,) = [table for table in report["tables"] if table["title"] == "Settings tried"]
    names = [column["name"] if isinstance(column, dict) else column for column in table["columns"]]
    row = table["rows"][0]
    return {name.rsplit(".", 1)[1]: value for name, value in zip(names, row) if name.startswith(CURVE)}


def means(folder):
    """The goal's mean over the seeds, by curve and workload; a run that failed counts as the worst."""
    found = {}
    with open(folder / "runs.csv", newline="") as file:
        rows = csv.DictReader(file)
        (goal,) = [name for name in rows.fieldnames if name.split(" ")[0] == GOAL]
        for row in rows:
            value = float(row[goal]) if row[goal] else float("inf")
            found.setdefault(row["flows"], {}).setdefault(row[CURVE], []).append(value)
    return {flows: {curve: sum(values) / len(values) for curve, values in curves.items()} for flows, curves in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--wireyard", default=str(HERE / "target/release/wireyard"))
    parser.add_argument("--budget", default="640")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--studies", type=pathlib.Path, default=STUDIES, help="folder with tuning.yaml and unseen.yaml")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    def lab(*words):
        done = subprocess.run([args.wireyard, "lab", *map(str, words), "--jobs", args.jobs], stdout=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"wireyard lab {words[0]} ended with status {done.returncode}")
        return done.stdout

    print(lab("tune", args.studies / "tuning.yaml", "--budget", args.budget, "-o", args.out / "tuned"))
    setting = best(args.out / "tuned")
    curve = "{ " + ", ".join(f"{key}: {value}" for key, value in setting.items()) + " }"

    text = (args.studies / "unseen.yaml").read_text()
    scenario = re.search(r"^scenario: (.*)$", text, re.M).group(1)
    text = text.replace(f"scenario: {scenario}", f"scenario: {(args.studies / scenario).resolve()}")
    text = text.replace("  flows:\n", f"    - {curve}\n  flows:\n", 1)
    study = args.out / "unseen.yaml"
    study.write_text(text)
    lab("sweep", study, "-o", args.out / "unseen", "-q")

    found = means(args.out / "unseen")
    won = 0
    print(f"tuned: {curve}\n{GOAL}, mean over the seeds\n{'workload':>8} {'HPCC':>10} {'SONiC':>10} {'tuned':>10}")
    for number, (_, curves) in enumerate(found.items(), 1):
        hpcc, sonic, tuned = (curves[f"#{n}"] for n in (1, 2, 3))
        is_best = tuned < min(hpcc, sonic)
        won += is_best
        print(f"{number:>8} {hpcc:>10.3f} {sonic:>10.3f} {tuned:>10.3f}{'' if is_best else '  not the best'}")
    print(f"the tuned curve is the best on {won} of {len(found)}")
    return 0 if won >= 8 else 1


if __name__ == "__main__":
    sys.exit(main())
