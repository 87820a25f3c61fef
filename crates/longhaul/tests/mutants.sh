#!/usr/bin/env bash
# Breaks one SQL statement or one line of the engine at a time in a scratch copy and expects the tests to fail: the
# conformance suite of its store, or the simulation. A mutant that survives shows a promise that no case tests.
#
#   crates/longhaul/tests/mutants.sh [sqlite] [postgres] [engine] [name…]
#
# Mutants of Postgres need the URL of a private cluster in TEST_POSTGRES_URL.
set -euo pipefail

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# name | file | sed expression. Every mutant still uses all parameters, because SQLite refuses to bind
# one that is missing from the statement, and a mutant that fails to run proves nothing.
sqlite_mutants=$(
    cat <<'LIST'
late-write-accepted|leases/find_leased.sql|s/epoch = ?3/epoch >= ?3/
late-renewal-accepted|leases/renew.sql|s/epoch = ?3/epoch >= ?3/
checkpoint-hides-cancel|leases/find_leased.sql|s/leases.cancel_requested_at IS NOT NULL/0/
version-hides-cancel|queries/versions.sql|s/leases.cancel_requested_at IS NOT NULL/0/
live-process-taken-over|replicas/take_over.sql|s/run = ?2/?2 = ?2/
leases-of-other-replicas-taken-over|replicas/take_over_leases.sql|s/replica = ?1/?1 <> ''/
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
final-status-ignored|lists/finished.sql|s/status = ?9/status >= ?9/
pause-ignored|claim/is_paused.sql|s/name = ?2/name = ?2 || '.'/
pause-late|control/pause_jobs.sql|s/rank = NULL/rank = rank/
resumed-in-no-line|control/resume_jobs.sql|s/paused = 0, rank/paused = 1, rank/
resumed-too-early|control/resume_jobs.sql|s/run_at <= ?3/run_at <= ?3 + 1000000000/
gone-never-forgotten|maintenance/forget_tombstones.sql|s/gone_at <= ?1/gone_at <= ?1 * 0/
list-by-labels-ignored|lists/by_id.sql|s/has.value = want.value/1/
list-without-order|lists/by_id.sql|s/ORDER BY id DESC/ORDER BY id/
LIST
)

# Likewise, because Postgres cannot infer the type of a parameter that no expression uses.
postgres_mutants=$(
    cat <<'LIST'
late-renewal-kept|leases/renew.sql|s/USING (tenant_id, id, epoch)/USING (tenant_id, id)/
late-checkpoint-stored|leases/insert_foreign_steps.sql|s/held.epoch = new.epoch/new.epoch > 0/
checkpoint-hides-cancel|leases/insert_steps.sql|s/held.cancel_requested_at IS NOT NULL/false/
version-hides-cancel|queries/versions.sql|s/job.cancel_requested_at IS NOT NULL/false/
live-process-taken-over|replicas/take_over.sql|s/run = $2/$2 = $2/
leases-of-other-replicas-taken-over|replicas/take_over.sql|s/ON lease.replica = ended.name/ON true/
shared-leases-not-taken-over|replicas/take_over.sql|s/least(lease.lease_until, $3::bigint)/greatest(lease.lease_until, $3::bigint)/
late-output-appended|leases/append_output.sql|s/held.epoch = new.epoch/new.epoch > 0/
live-lease-rescued|maintenance/lock_expired_leases.sql|s/lease_until <= $1/lease_until - 5000 <= $1/
expired-shared-lease-kept|maintenance/split_expired_leases.sql|s/lease_until <= $1/lease_until <= 0 * $1/
live-shared-lease-split|maintenance/split_expired_leases.sql|s/lease_until <= $1/lease_until <= 2 * $1/
shared-lease-not-locked|settle/end_shared_jobs.sql|s/FOR KEY SHARE/LIMIT 1/
finished-job-leased-again|migrations/0001_initial.sql|s/id = member.id AND is_lease_shared/id = member.id/
resumed-job-in-shared-lease|migrations/0001_initial.sql|s/AND f.id IS NULL AND j.version = 1/AND f.id IS NULL/
usage-folded-twice|maintenance/roll_up_usage.sql|s/sum(jobs)::bigint/2 * sum(jobs)::bigint/
lane-cursor-not-lowered|submit/insert_jobs_without_keys.sql|s/least(lanes.due_at, excluded.due_at)/greatest(lanes.due_at, excluded.due_at)/
lane-with-jobs-forgotten|claim/forget_lanes.sql|s/WHERE due_at = 9223372036854775807 AND/WHERE/
claim-waits-for-others|claim/claim_heads.sql|s/FOR UPDATE SKIP LOCKED/FOR UPDATE/
tombstone-skipped|control/delete_job.sql|s/FROM gone$/FROM gone WHERE false/
LIST
)

# Lines that keep the promises of docs/design/outages.md, cancellation.md and heartbeats.md.
engine_mutants=$(
    cat <<'LIST'
late-renewal-awaited|worker/lease_renewer.rs|s/() = self.shared.clock.sleep(self.renew) => {/() = std::future::pending::<()>() => {/
checkpoint-ignores-cancel|ctx/step.rs|s/if stored.cancel_requested {/if stored.cancel_requested \&\& false {/
outage-charged|worker/attempt.rs|s/self.ran_out_in_outage(&kept).then_some/false.then_some/
settlement-given-up-in-outage|worker/attempt.rs|s/if self.ran_out_in_outage(kept) {/if self.ran_out_in_outage(kept) \&\& false {/
rescued-in-outage|worker/rescue.rs|s/let is_away = .*/let is_away = false;/
rescued-after-outage|worker/rescue.rs|s/self.held_until = Some(now.after(self.lease));/self.held_until = None;/
late-renewal-is-no-outage|worker/lease_renewer.rs|s/self.held.lock().store_is_away = true;/self.held.lock().store_is_away = false;/
failed-renewal-is-no-outage|worker/lease_renewer.rs|s/self.held.lock().store_is_away |= error.is_transient();/self.held.lock().store_is_away |= false;/
heartbeat-awaited|worker/heartbeat.rs|s/() = shared.clock.sleep(HEARTBEAT_INTERVAL) => {/() = std::future::pending::<()>() => {/
cancellation-not-polled|worker/cancellation_poller.rs|s/lease_renewer.cancel_attempt(lease);/let _ = (lease, lease_renewer);/
step-begins-after-cancel|ctx/step.rs|s/if self.is_cancelled() {/if self.is_cancelled() \&\& false {/
sleep-after-cancel|ctx/sleep.rs|s/if self.is_cancelled() {/if self.is_cancelled() \&\& false {/
settlement-not-repeated|worker/attempt.rs|s/Some(Err(error)) if error.is_transient() =>/Some(Err(error)) if error.is_transient() \&\& attempt > 9_999 =>/
checkpoint-not-repeated|ctx.rs|s/Err(error) if error.is_transient() =>/Err(error) if error.is_transient() \&\& attempt > 9_999 =>/
LIST
)

lived=0
mkdir "$scratch/work"
git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp --parents -t "$scratch/work")
cd "$scratch/work"
# A separate target folder: Cargo names its build output by the path inside the workspace, so other
# test runs in a shared folder would execute the mutant.
export CARGO_TARGET_DIR=${MUTANTS_TARGET_DIR:-$root/target/mutants}

sqlite_suite() {
    cargo test --quiet --package longhaul --features conformance --test it -- conformance::in_sqlite_memory
}

postgres_suite() {
    cargo nextest run --cargo-quiet --package longhaul --all-features --test it --max-fail 1 --no-tests fail \
        -E 'test(conformance::in_postgres::) | test(in_postgres_sharing_leases::) | test(postgres::shared_leases::) | test(postgres::maintenance::)'
}

# Each mutant must be found within 80 seeds. All have been found within five.
engine_suite() {
    TEST_FIRST_SEED=0 PROPTEST_CASES=512 cargo test --quiet --package longhaul --all-features --test it -- \
        simulation_keeps_all_promises
}

# try_mutants GROUP FOLDER LIST [name…]
try_mutants() {
    local group=$1 folder=$2 list=$3
    shift 3
    # Only those with the given names, if there are any.
    [ $# -eq 0 ] || list=$(grep -E "^($(IFS='|'; echo "$*"))\|" <<<"$list") || return 0
    "${group}_suite" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log"; echo "the suite fails without a mutant" >&2; exit 1; }
    local name file edit
    while IFS='|' read -r name file edit; do
        cp "$folder/$file" "$scratch/original"
        # Skips comment lines, so that a match in a comment does not count as a mutation.
        sed -i -e "/^--/! { /^ *\/\//! $edit; }" "$folder/$file"
        if cmp -s "$folder/$file" "$scratch/original"; then
            echo "STALE   $name: $edit changes nothing in $file"
            lived=$((lived + 1))
        elif "${group}_suite" >"$scratch/log" 2>&1; then
            echo "LIVED   $name"
            lived=$((lived + 1))
        elif grep -q '^ *test result: FAILED' "$scratch/log"; then
            echo "caught  $name by $(grep -oE 'test [a-z_:]+ \.\.\. FAILED|^    conformance::.*|^TEST_SEED=[0-9]+: \[[a-z]+\]' "$scratch/log" | head -n 1)"
        else
            tail -20 "$scratch/log"
            echo "BROKEN  $name does not run"
            lived=$((lived + 1))
        fi
        cp "$scratch/original" "$folder/$file"
    done <<<"$list"
}

groups=()
while [[ ${1-} =~ ^(sqlite|postgres|engine)$ ]]; do
    groups+=("$1")
    shift
done
[ ${#groups[@]} -gt 0 ] || groups=(sqlite postgres engine)
for group in "${groups[@]}"; do
    case $group in
        sqlite) try_mutants sqlite crates/longhaul/src/store/sqlite/sql "$sqlite_mutants" "$@" ;;
        postgres) try_mutants postgres crates/longhaul/src/store/postgres/sql "$postgres_mutants" "$@" ;;
        engine) try_mutants engine crates/longhaul/src "$engine_mutants" "$@" ;;
    esac
done

[ "$lived" -eq 0 ] || { echo "$lived mutants were not caught" >&2; exit 1; }
