#!/bin/bash
# check_style.sh: what a reviewer would otherwise have to say. Needs nothing but gcc, nm and git.
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
rc=0
say() { echo "style: $*"; rc=1; }
sources=$(find lib server clients/cli tests -name '*.[ch]' -not -path 'tests/golden/*')

# every header stands alone
for h in $(find lib server clients/cli -name '*.h' -not -name list.h -not -path lib/analysis/whats.h -not -path lib/analysis/reports.h); do
    gcc -std=c11 -D_GNU_SOURCE -fsyntax-only -iquote lib -iquote server -iquote clients/cli -Ibuild/release/gen -x c "$h" 2>/dev/null || say "$h does not stand alone"
done
# the public one also in C++
g++ --version >/dev/null 2>&1 && { g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -Ilib -x c++ lib/posenc.h || say "lib/posenc.h is not C++"; }

# who may include whom
grep -lE '#include "(server|http|grpc|service|cache)' lib -r --include='*.[ch]' && say "lib includes the server"
grep -lE 'microhttpd' $(find server -name '*.[ch]' -not -path 'server/http/*') && say "libmicrohttpd outside server/http"
grep -lE '<grpc/|pb-c.h' $(find server -name '*.[ch]' -not -path 'server/grpc/*') && say "gRPC outside server/grpc"
grep -lE '#include "http/' $(find server/grpc -name '*.[ch]') && say "the gRPC door includes the HTTP door"
grep -lE '#include "grpc/' $(find server/http -name '*.[ch]') && say "the HTTP door includes the gRPC door"
grep -lE '#include "(encodings|formats|analysis|sequence|graph|linalg|resolve)/' lib/plot/*.[ch] && say "lib/plot draws, and knows nothing of what"
grep -lE '#include "encodings/[a-z_]+\.h"' $(find lib -name '*.[ch]' -not -name registry.c) && say "only registry.c includes from encodings/"

# every encoding's file is listed, and every listed one has a unit test and a message
for c in lib/encodings/*.c; do
    n=$(basename -s .c "$c")
    grep -qx "X($n)" lib/encodings/list.h || say "$c is not in lib/encodings/list.h"
    [ -f "tests/unit/test_$n.c" ] || say "$n has no tests/unit/test_$n.c"
done

# lines, tabs, words
awk 'length($0) > 125 { print FILENAME ":" FNR; bad = 1 } END { exit bad }' $sources || say "lines over 125 columns"
grep -nP '\t' $sources && say "tabs in C"
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $(git ls-files '*.c' '*.h' '*.py' '*.sh' '*.md' Makefile 2>/dev/null | grep -vE '^(tests/tools/check_style.sh|LICENSE)$') && say "left for later"
grep -nE '\b(printf|fprintf|fopen|socket|pthread_create)\(' $(find lib -name '*.c') && say "lib prints, opens or starts something"
exit $rc
