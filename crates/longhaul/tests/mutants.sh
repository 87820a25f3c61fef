#!/usr/bin/env bash
# Breaks one SQL statement at a time in a scratch copy and expects the conformance suite to fail.
# A mutant that survives shows a promise of the store that no case tests.
#
#   crates/longhaul/tests/mutants.sh [name…]
set -euo pipefail

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# name | file | sed expression. Every mutant still uses all parameters, because SQLite refuses to bind
# one that is missing from the statement, and a mutant that fails to run proves nothing.
mutants=$(
    cat <<'LIST'
late-write-accepted|leases/find_leased.sql|s/epoch = ?3/epoch >= ?3/
late-renewal-accepted|leases/renew.sql|s/epoch = ?3/epoch >= ?3/
renewal-hides-cancel|leases/renew.sql|s/cancel_requested_at IS NOT NULL/0/
live-lease-swept|maintenance/expired_leases.sql|s/lease_until <= ?1/lease_until <= ?1 + 5000/
lost-lease-kept|maintenance/expired_leases.sql|s/lease_until <= ?1/lease_until <= ?1 - 5000/
sweep-without-limit|maintenance/expired_leases.sql|s/LIMIT ?2/LIMIT ?2 + 100/
deleted-early|maintenance/expired_jobs.sql|s/expires_at <= ?1/expires_at <= ?1 + 1000/
deleted-late|maintenance/expired_jobs.sql|s/expires_at <= ?1/expires_at <= ?1 - 1000/
other-tenants-job|queries/find_job.sql|s/tenant_id = ?1 AND/?1 <> '' AND/
other-tenants-key|submit/find_key.sql|s/tenant_id = ?1 AND/?1 <> '' AND/
other-tenants-lease|leases/find_leased.sql|s/jobs.tenant_id = ?1 AND/?1 <> '' AND/
fork-shares-too-much|submit/fork_steps.sql|s/position < ?3/position <= ?3/
fork-shares-nothing|submit/fork_steps.sql|s/?3 IS NULL OR position/?3 IS NOT NULL AND position/
steps-out-of-order|queries/steps.sql|s/ORDER BY position, /ORDER BY /
priority-ignored|claim/promote_due.sql|s/priority \* ?3/0 * ?3/
due-too-early|claim/promote_due.sql|s/run_at <= ?1/run_at <= ?1 + 1000/
ended-lease-kept|leases/delete_lease.sql|s/seq = ?1/seq = -?1/
claimed-job-left-in-queue|submit/dequeue.sql|s/id = ?2/id = ?2 || '.'/
final-status-ignored|queries/list_finished.sql|s/status = ?8/status >= ?8/
pause-ignored|claim/is_paused.sql|s/name = ?2/name = ?2 || '.'/
pause-late|control/pause_jobs.sql|s/rank = NULL/rank = rank/
resumed-in-no-line|control/resume_jobs.sql|s/paused = 0, rank/paused = 1, rank/
resumed-too-early|control/resume_jobs.sql|s/run_at <= ?3/run_at <= ?3 + 1000000000/
gone-never-forgotten|maintenance/forget_tombstones.sql|s/gone_at <= ?1/gone_at <= ?1 * 0/
list-by-labels-ignored|queries/list_by_id.sql|s/has.value = want.value/1/
list-without-order|queries/list_by_id.sql|s/ORDER BY id DESC/ORDER BY id/
LIST
)

wanted() {
    [ $# -eq 1 ] && return 0
    local name=$1
    shift
    for one in "$@"; do [ "$one" = "$name" ] && return 0; done
    return 1
}

lived=0
mkdir "$scratch/work"
git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp --parents -t "$scratch/work")
cd "$scratch/work"
# A separate target folder: Cargo names its build output by the path inside the workspace, so other
# test runs in a shared folder would execute the mutant.
export CARGO_TARGET_DIR=${MUTANTS_TARGET_DIR:-$root/target/mutants}
sql=crates/longhaul/src/store/sqlite/sql

suite() {
    cargo test --quiet --package longhaul --features conformance --test it -- conformance::in_sqlite_memory
}

suite >"$scratch/log" 2>&1 || { cat "$scratch/log"; echo "the suite fails without a mutant" >&2; exit 1; }

while IFS='|' read -r name file edit; do
    wanted "$name" "$@" || continue
    cp "$sql/$file" "$scratch/original"
    # Skips comment lines, so that a match in a comment does not count as a mutation.
    sed -i -e "/^--/! $edit" "$sql/$file"
    if cmp -s "$sql/$file" "$scratch/original"; then
        echo "STALE   $name: $edit changes nothing in $file"
        lived=$((lived + 1))
    elif suite >"$scratch/log" 2>&1; then
        echo "LIVED   $name"
        lived=$((lived + 1))
    elif grep -q '^test result: FAILED' "$scratch/log"; then
        echo "caught  $name by $(grep -c -E '^    conformance::' "$scratch/log") cases"
    else
        tail -20 "$scratch/log"
        echo "BROKEN  $name does not run"
        lived=$((lived + 1))
    fi
    cp "$scratch/original" "$sql/$file"
done <<<"$mutants"

[ "$lived" -eq 0 ] || { echo "$lived mutants were not caught" >&2; exit 1; }
