#!/usr/bin/env bash
# What the tests of the pages need besides Python: a Chromium, and axe-core, which judges how well a page can be used by everybody.
# Installed where that can be done without asking; the tests say what they miss. Never fails.
place=${1:?folder for axe-core}
if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium for the tests of the pages"
    export DEBIAN_FRONTEND=noninteractive
    timeout 180 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium' >/dev/null 2>&1 </dev/null ||
        echo "chromium could not be installed: the tests of the pages will be skipped"
fi
if [ ! -f "$place/node_modules/axe-core/axe.min.js" ] && command -v npm >/dev/null; then
    timeout 120 npm install --silent --no-save --no-audit --no-fund --prefix "$place" axe-core@4 >/dev/null 2>&1 ||
        echo "axe-core could not be installed: the test that needs it will be skipped"
fi
exit 0
