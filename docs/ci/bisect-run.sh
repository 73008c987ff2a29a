#!/usr/bin/env bash
# Finds the commit that made a server slower, by `git bisect run`. Bisecting changes the work tree, so the script must lie
# outside of it:
#
#   cp docs/ci/bisect-run.sh /tmp/ && git bisect start BAD GOOD
#   git bisect run /tmp/bisect-run.sh GOOD 'BUILD' 'RUN with {port}' [flags of whyslow compare]
#
# `whyslow bisect GOOD..BAD` does the same by itself, with fewer blocks, and says why. Here each commit is compared with GOOD.
# What whyslow says becomes what git asks for: not slower is good (0), slower is bad (1), and a commit that cannot be built,
# started or told from GOOD is skipped (125). A wrong command line ends the bisection.
set -euo pipefail

if (($# < 3)); then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 255
fi
good=$1 build=$2 run=$3
shift 3
cannot_tell=125
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

code=0
whyslow compare "good=git:$good" here=git:HEAD --build "$build" --run "$run" --baseline good --fail-if 'here slower' \
    --no-why --out "$folder/run" "$@" || code=$?
case $code in
0) exit 0 ;;
3) exit 1 ;;
1 | 4 | 5) exit "$cannot_tell" ;;
*) exit 255 ;;
esac
