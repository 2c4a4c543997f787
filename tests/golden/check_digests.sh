#!/bin/bash
# check_digests.sh: the frozen bytes of digests.txt from several builds and CPUs: gcc -O2, the same with glibc's FMA and AVX2 variants
# hidden, clang -O0, gcc -O3 for AVX2, clang -O3 for AVX-512, and aarch64 under an emulator where its libraries can be had (the reason
# is printed where one cannot run).
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
list=tests/golden/digests.txt
rc=0
run()
{
    local name=$1 out
    shift
    out=$("$@" "$list") || rc=1
    echo "$name: $out"
}
make -s digests || exit 1
make -s VARIANT=debug O=build/clang CC=clang digests || exit 1
run "gcc -O2" build/release/digests
run "gcc -O2, no AVX2, no FMA in libc" env GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX2_Usable,-FMA_Usable build/release/digests
run "clang -O0" build/clang/digests
# wider instructions and all optimisation: what a user's own build may choose
flags=$(grep -m1 ^flags /proc/cpuinfo)
wide()
{
    local name=$1 need=$2
    shift 2
    for f in $need; do
        [[ " $flags " == *" $f "* ]] || { echo "SKIP $name: this CPU has no $f"; return; }
    done
    make -s O=build/wide-"${name// /-}" "$@" digests && run "$name" build/wide-"${name// /-}"/digests || rc=1
}
wide "gcc -O3 AVX2" "avx2 fma" FLAGS.release="-O3 -mavx2 -mfma"
wide "clang -O3 AVX-512" "avx512f avx512dq avx512vl avx512bw" CC=clang FLAGS.release="-O3 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma"
if root=$(tests/tools/aarch64-root.sh); then
    libs=$root/usr/lib/aarch64-linux-gnu
    cc="aarch64-linux-gnu-gcc -isystem $root/usr/include -isystem $root/usr/include/aarch64-linux-gnu -L$libs -Wl,-rpath-link,$libs"
    if make -s O=build/aarch64 CC="$cc" AR=aarch64-linux-gnu-ar digests; then
        run "aarch64 gcc -O2, emulated" qemu-aarch64-static -L "$root" build/aarch64/digests
    else
        rc=1
    fi
else
    echo "SKIP aarch64: $root"
fi
exit $rc
