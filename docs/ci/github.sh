#!/usr/bin/env bash
# What action.yml runs: whyslow-pr.sh with the inputs as variables; its exit code becomes an output and a summary.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
WHYSLOW=${WHYSLOW:-$here/../../target/release/whyslow}
PATH=$(cd "$(dirname "$WHYSLOW")" && pwd):$PATH
read -r -a flags <<<"${FLAGS:-}"
while IFS= read -r condition; do
    if [[ -n ${condition// /} ]]; then flags+=(--fail-if "$condition"); fi
done <<<"${FAIL_IF:-}"
code=0
"$here/whyslow-pr.sh" "$BASE" "$HEAD" "$BUILD" "$RUN" "${flags[@]}" || code=$?
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
if [[ -e $WHYSLOW_OUT/comment.md ]]; then cat "$WHYSLOW_OUT/comment.md" >>"$GITHUB_STEP_SUMMARY"; fi
if ((code != 0)) && [[ " $TOLERATE " == *" $code "* ]]; then
    echo "::warning::whyslow ended with $code: no verdict (4 inconclusive, 5 invalid), which does not fail this job"
    exit 0
fi
exit "$code"
