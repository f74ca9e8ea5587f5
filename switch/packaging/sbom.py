#!/usr/bin/env python3
"""The crates of the binary as a CycloneDX document: versions, licences, sums, and what a reviewer looks at first.

Read from `cargo metadata` and Cargo.lock; properties say how many lines of a crate have the word `unsafe`, and which of them bring C or
assembly. `--table` prints those as a table instead, for programs/supply_chain.md.
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NATIVE = (".c", ".S", ".s", ".asm", ".cc", ".cpp")
# Sources that a build for Linux on x86-64 does not compile.
NOT_BUILT = ("tests", "benches", "examples", "fuzz", "target")


def metadata():
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]
    return json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def crates(all_of_it):
    """Packages that the binary is linked from, and what they depend on: no dev or build dependencies, no macros of procedures."""
    packages = {package["id"]: package for package in all_of_it["packages"]}
    nodes = {node["id"]: node for node in all_of_it["resolve"]["nodes"]}
    root = next(key for key, package in packages.items() if package["name"] == "wireyard-switch")
    found, waiting = {}, [root]
    while waiting:
        key = waiting.pop()
        if key in found or any(target["kind"] == ["proc-macro"] for target in packages[key]["targets"]):
            continue
        normal = [
            dep["pkg"] for dep in nodes[key]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        found[key] = normal
        waiting += normal
    return root, packages, {key: [dep for dep in deps if dep in found] for key, deps in found.items()}


def sums():
    """Checksums of Cargo.lock by name and version."""
    with open(os.path.join(ROOT, "Cargo.lock")) as file:
        blocks = file.read().split("[[package]]")
    value = lambda block, key: (re.search(rf'^{key} = "(.*)"$', block, re.M) or [None, None])[1]
    return {(value(block, "name"), value(block, "version")): value(block, "checksum") for block in blocks[1:]}


def looked_at(package):
    """Lines with `unsafe`, and files of C or assembly, in a crate's folder."""
    folder = os.path.dirname(package["manifest_path"])
    unsafe, native = 0, 0
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_BUILT]
        for name in files:
            native += name.endswith(NATIVE)
            if name.endswith(".rs"):
                with open(os.path.join(path, name), errors="replace") as file:
                    code = (line.split("//")[0] for line in file)
                    unsafe += sum(bool(re.search(r"\bunsafe\b(?!_)", line)) for line in code)
    return unsafe, native


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, known):
    unsafe, native = looked_at(package)
    entry = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
        "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
        "properties": [
            {"name": "wireyard:lines-with-unsafe", "value": str(unsafe)},
            {"name": "wireyard:files-of-c-or-assembly", "value": str(native)},
        ],
    }
    checksum = known.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def main():
    root, packages, deps = crates(metadata())
    known = sums()
    in_order = sorted(deps, key=lambda key: (packages[key]["name"], packages[key]["version"]))
    components = [component(packages[key], known) for key in in_order if key != root]
    if "--table" in sys.argv:
        rows = [(int(c["properties"][1]["value"]), int(c["properties"][0]["value"]), c) for c in components]
        print("| crate | C or assembly, files | lines with `unsafe` | licence |\n| --- | --- | --- | --- |")
        for native, unsafe, c in sorted(rows, key=lambda row: (-row[0], -row[1])):
            if native or unsafe >= 100:
                print(f"| {c['name']} {c['version']} | {native} | {unsafe} | {c['licenses'][0]['expression']} |")
        return
    main_component = component(packages[root], known)
    main_component["type"] = "application"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main_component},
        "components": components,
        "dependencies": [
            {"ref": purl(packages[key]), "dependsOn": sorted(purl(packages[dep]) for dep in deps[key])} for key in in_order
        ],
    }
    print(json.dumps(document, indent=1))


main()
