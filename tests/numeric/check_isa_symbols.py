"""Test: an AVX source emits only functions of its own instruction set.

  python3 check_isa_symbols.py NM LIBRARY...
A function that several sources emit (weak, to the linker) is kept once, and on a CPU without AVX
the kept copy may be one it cannot run. Exit 0 fine, 1 with one line per offending symbol.
"""
import subprocess
import sys

OWN = {"_avx2.cpp": "Avx2Lanes", "_avx512.cpp": "Avx512Lanes"}


def main():
    nm, *libraries = sys.argv[1:]
    listing = subprocess.run([nm, "-C", *libraries], check=True, capture_output=True, text=True).stdout
    source, seen, offences = "", 0, []
    for line in listing.splitlines():
        if line.endswith(".o:"):
            source = line.removesuffix(".o:")
            continue
        kind, _, name = line[17:].partition(" ")  # 16 digits of address or blanks before it
        own = next((lanes for end, lanes in OWN.items() if source.endswith(end)), None)
        if own and kind in ("W", "V", "u"):
            seen += 1
            if own not in name:
                offences.append(f"{source} emits {name}")
    print("\n".join(offences) or f"{seen} functions, all of their own instruction set")
    return 1 if offences else 0


sys.exit(main())
