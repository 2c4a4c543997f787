#!/bin/sh
# check_symbols.sh LIBPOSENC.A: nothing whose bits are promised goes through a libm function that IEEE 754 does not fix, or
# through a BLAS. Every undefined symbol of the library that libm, BLAS or LAPACK exports must be in the list.
set -eu
lib=$1
allowed="sqrt fma floor ceil trunc rint fabs ldexp frexp copysign"
ok=$(mktemp) && exports=$(mktemp) && wants=$(mktemp)
trap 'rm -f "$ok" "$exports" "$wants"' EXIT
for s in $allowed; do printf '%s\n%sf\n' "$s" "$s"; done | sort >"$ok"
{
    for so in "$(gcc -print-file-name=libm.so.6)" /usr/lib/*/libblas.so.3 /usr/lib/*/liblapack.so.3; do
        [ ! -e "$so" ] || nm -D --defined-only "$so" | awk '{ sub(/@.*/, "", $3); print $3 }'
    done
} | sort -u >"$exports"
[ "$(wc -l <"$exports")" -gt 100 ] || { echo "check_symbols: libm's exports could not be read"; exit 1; }
nm -u "$lib" | awk '/ U / { sub(/@.*/, "", $2); print $2 }' | sort -u >"$wants"
bad=$(comm -12 "$wants" "$exports" | comm -23 - "$ok")
[ -z "$bad" ] || { echo "check_symbols: $lib uses $(echo $bad), whose results differ between machines"; exit 1; }
echo "check_symbols: of libm only $(comm -12 "$wants" "$exports" | tr '\n' ' ')"
