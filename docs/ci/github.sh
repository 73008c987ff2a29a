#!/usr/bin/env bash
# What action.yml runs: whyslow-pr.sh with the inputs as variables; its exit code becomes an output and a summary.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

# Ends with a code; the sentence goes to the log, to the annotations and to the step's summary.
finish() {
    local code=$1 kind=$2 sentence=$3
    echo "exit-code=$code" >>"$GITHUB_OUTPUT"
    echo "::$kind::$sentence"
    printf '%s\n' "$sentence" >>"$GITHUB_STEP_SUMMARY"
    exit "$code"
}

WHYSLOW=${WHYSLOW:-$here/../../target/release/whyslow}
if [[ ! -x $WHYSLOW || -d $WHYSLOW ]]; then
    finish 2 error "the input whyslow names $WHYSLOW, where there is no program: leave it out to have whyslow built"
fi
PATH=$(cd "$(dirname "$WHYSLOW")" && pwd):$PATH

# A first push and a run by hand have no commit before them: the default branch stands in its place.
BASE=${BASE:-}
if [[ -z ${BASE//0/} ]]; then
    BASE=
    for branch in "${DEFAULT_BRANCH:-}" main master; do
        if [[ -n $branch ]] && git rev-parse --verify --quiet "origin/$branch^{commit}" >/dev/null; then
            BASE=origin/$branch
            break
        fi
    done
    if [[ -z $BASE ]]; then
        finish 2 error "there is no commit to compare with: give the input base, and check out with fetch-depth: 0"
    fi
    if [[ $(git rev-parse "$BASE^{commit}") == "$(git rev-parse --verify --quiet "$HEAD^{commit}")" ]]; then
        finish 0 notice "nothing to compare: this is the commit of the default branch ($BASE)"
    fi
fi

# Words as a shell reads them, without running anything: quotes keep blanks together.
if ! words=$(xargs -n 1 printf '%s\n' <<<"${FLAGS:-}" 2>/dev/null); then
    finish 2 error "the input flags has a quote without its end: ${FLAGS:-}"
fi
flags=()
if [[ -n ${FLAGS//[[:space:]]/} ]]; then mapfile -t flags <<<"$words"; fi
while IFS= read -r condition; do
    if [[ -n ${condition// /} ]]; then flags+=(--fail-if "$condition"); fi
done <<<"${FAIL_IF:-}"

# The comment leads to the artefacts of this run, of which the page is one.
export WHYSLOW_LINK="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID#artifacts"

code=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
{ "$here/whyslow-pr.sh" "$BASE" "$HEAD" "$BUILD" "$RUN" "${flags[@]}" 2>&1 >&3 | tee "$said" >&2; } 3>&1 || code=$?
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
if [[ -e $WHYSLOW_OUT/comment.md ]]; then
    cat "$WHYSLOW_OUT/comment.md" >>"$GITHUB_STEP_SUMMARY"
elif ((code != 0)); then
    # What was refused has no comment: the last sentence that was said is the reason.
    reason=$(grep '^error: ' "$said" | tail -n 1 || true)
    printf '%s\n' "whyslow ended with $code: ${reason:-see the log of this step}" >>"$GITHUB_STEP_SUMMARY"
fi
if ((code != 0)) && [[ " $TOLERATE " == *" $code "* ]]; then
    echo "::warning::whyslow ended with $code: no verdict (4 inconclusive, 5 invalid), which does not fail this job"
    exit 0
fi
exit "$code"
