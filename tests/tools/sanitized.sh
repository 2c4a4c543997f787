#!/bin/sh
# sanitized.sh asan|tsan COMMAND...: runs the command with the options of sanitizers.conf; from the top folder.
set -eu
variant=$1
shift
conf=tests/tools/sanitizers.conf
while read -r which setting; do
    if [ "$which" = "$variant" ]; then export "${setting%%=*}=${setting#*=}"; fi
done <"$conf"
export CK_FORK=no POSENC_TEST_SANITIZED="$variant"
# a sanitized daemon is slow to start; python itself is not sanitized, so nothing is preloaded
exec timeout -k 10 "${SANITIZED_SECONDS:-7200}" "$@"
