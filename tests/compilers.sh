#!/usr/bin/env bash
# What the tests of programs in other languages need besides gcc: g++ and node. Installed where that can be done without asking; the tests
# say what they miss. Never fails.
wanted=()
command -v g++ >/dev/null || wanted+=(g++)
command -v node >/dev/null || wanted+=(nodejs)
if [ ${#wanted[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${wanted[*]} for the tests of programs"
    export DEBIAN_FRONTEND=noninteractive
    timeout 180 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' - "${wanted[@]}" >/dev/null 2>&1 </dev/null ||
        echo "${wanted[*]} could not be installed: the tests that need them will be skipped"
fi
exit 0
