#!/usr/bin/env bash
# What the tests of programs in other languages need besides gcc: g++, node and go. Installed where that can be done without asking; the
# tests say what they miss. Never fails.
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
export DEBIAN_FRONTEND=noninteractive
updated=
for pair in g++:g++ node:nodejs go:golang-go; do
    command -v "${pair%%:*}" >/dev/null && continue
    echo "installing ${pair##*:} for the tests of programs"
    [ -n "$updated" ] || updated=$(timeout 60 apt-get update -qq >/dev/null 2>&1 </dev/null; echo yes)
    timeout 120 apt-get install -y -qq --no-install-recommends "${pair##*:}" >/dev/null 2>&1 </dev/null ||
        echo "${pair##*:} could not be installed: the tests that need it will be skipped"
done
exit 0
