#!/usr/bin/env bash
# Posts a comment of whyslow on a pull request, or updates the one that it posted before: that one is found by the marker in
# its first line, whatever was said since.
#
#   GH_TOKEN=… docs/ci/github-comment.sh OWNER/REPOSITORY NUMBER whyslow-pr/comment.md
set -euo pipefail

if (($# != 3)); then
    sed -n '5s/^# *//p' "$0" >&2
    exit 2
fi
repository=$1 number=$2 file=$3
marker=$(head -n 1 "$file")
mine=$(gh api --paginate "repos/$repository/issues/$number/comments" \
    --jq ".[] | select(.body | startswith(\"$marker\")) | .id")
mine=${mine%%$'\n'*}
if [[ -n $mine ]]; then
    gh api --method PATCH "repos/$repository/issues/comments/$mine" --field "body=@$file" >/dev/null
else
    gh api --method POST "repos/$repository/issues/$number/comments" --field "body=@$file" >/dev/null
fi
