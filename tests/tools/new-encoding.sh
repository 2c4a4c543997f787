#!/bin/sh
# new-encoding.sh NAME: what `make new NAME=foo` does: the places of lib/encodings/README.md that a program can fill.
set -eu
cd "$(dirname "$(realpath "$0")")/../.."
name=${1:-}
case $name in
'' | [!a-z]* | *[!a-z0-9_]*) echo "new: make new NAME=foo; a name is [a-z][a-z0-9_]*, got '$name'" >&2; exit 2 ;;
esac
[ ! -e "lib/encodings/$name.c" ] || { echo "new: lib/encodings/$name.c is there" >&2; exit 1; }
sed "s/alibi_slopes/$name/g" lib/encodings/alibi_slopes.c >"lib/encodings/$name.c"
sed "s/alibi_slopes/$name/g" tests/unit/test_alibi_slopes.c >"tests/unit/test_$name.c"
echo "X($name)" >>lib/encodings/list.h
cat <<TEXT
new: lib/encodings/$name.c and tests/unit/test_$name.c are copies of alibi_slopes's, and list.h has its line.
Left for you: the formula; in proto/posenc/v1 a message and its line in EncodeRequest's oneof, with the next free number;
a golden case from an independent implementation in tests/golden.
TEXT
