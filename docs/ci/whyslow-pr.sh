#!/usr/bin/env bash
# Compares the base of a pull request with its head, in any CI and on any machine with git and whyslow:
#
#   docs/ci/whyslow-pr.sh BASE HEAD 'BUILD' 'RUN with {port}' [flags of whyslow compare]
#   docs/ci/whyslow-pr.sh origin/main HEAD 'cargo build --release' 'target/release/server --port {port}' --path /users
#
# It ends as `whyslow compare` does: 0 there is a verdict and the head is not slower, 1 it could not be done, 2 the command
# line is wrong, 3 the head is slower or another --fail-if holds, 4 inconclusive, 5 invalid. What it keeps, in $WHYSLOW_OUT
# (whyslow-pr where not said; $WHYSLOW_LINK is where others find it, for the comment):
#
#   result.json   what was found           report.html   the same as a page that opens offline
#   comment.md    to be posted             junit.xml     for CI that shows tests      run/   the measurements themselves
set -euo pipefail

if (($# < 4)); then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
base=$1 head=$2 build=$3 run=$4
shift 4
out=${WHYSLOW_OUT:-whyslow-pr}
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)

comment=(--comment "$out/comment.md")
if [[ -n ${WHYSLOW_LINK:-} ]]; then comment+=(--comment-link "$WHYSLOW_LINK"); fi

code=0
whyslow compare "base=git:$base" "head=git:$head" --build "$build" --run "$run" --baseline base --fail-if 'head slower' \
    "${comment[@]}" --junit "$out/junit.xml" --out "$out/run" --format json "$@" >"$out/result.json" || code=$?
# A run that began has something to show, whatever became of it.
if [[ -e $out/run/manifest.json ]]; then
    whyslow report "$out/run" -o "$out/report.html" >&2 || echo "there is no page: see $out/result.json" >&2
    # One that was stopped before its end has written no comment yet.
    missing=()
    if [[ ! -e $out/comment.md ]]; then missing=("${comment[@]}" --junit "$out/junit.xml"); fi
    whyslow analyse "$out/run" "${missing[@]}" || true
fi
exit "$code"
