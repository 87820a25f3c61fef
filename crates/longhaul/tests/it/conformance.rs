//! The conformance suite, run on every store and every wrapper.

use std::sync::Arc;

use longhaul::store::conformance::StoreHarness;
use longhaul::store::faulty::{FaultPlan, FaultyStore};
use longhaul::store::sqlite::SqliteStore;

use crate::model_store::ModelStore;

fn sqlite_file() -> StoreHarness {
    let (clock, folder) = (StoreHarness::clock(), tempfile::tempdir().unwrap());
    let path = folder.path().join("jobs.db");
    let open = move |clock| SqliteStore::open(&path, clock).unwrap();
    StoreHarness::new(open(clock.clone()), clock).reopened_by(open).keeping(folder)
}

fn sqlite_memory() -> StoreHarness {
    let clock = StoreHarness::clock();
    StoreHarness::new(SqliteStore::memory(clock.clone()).unwrap(), clock)
}

fn faulty_without_faults() -> StoreHarness {
    let clock = StoreHarness::clock();
    let store = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    StoreHarness::new(FaultyStore::new(store, FaultPlan::none()), clock)
}

fn reference() -> StoreHarness {
    let clock = StoreHarness::clock();
    StoreHarness::new(ModelStore::new(clock.clone()), clock)
}

longhaul::store_conformance!(in_sqlite_file, sqlite_file());
longhaul::store_conformance!(in_sqlite_memory, sqlite_memory());
longhaul::store_conformance!(in_faulty_without_faults, faulty_without_faults());
longhaul::store_conformance!(in_model_store, reference());
longhaul::store_conformance!(in_postgres, crate::postgres::harness().await);
longhaul::store_conformance!(in_postgres_sharing_leases, crate::postgres::sharing_harness().await);
longhaul::store_conformance!(in_postgres_alternating, crate::postgres::alternating_harness().await);

// A few cases of each theme: behind a pooler, statements are sent differently but have the same effect.
longhaul::store_conformance! { @cases in_postgres_behind_pgbouncer,
    crate::postgres::pgbouncer_harness().await,
    submit {
        accepted_job_is_what_was_submitted,
        hundred_concurrent_submissions_of_a_key_make_one_job,
        refused_submission_does_not_touch_the_others_of_its_batch,
    }
    claim {
        concurrent_claims_never_share_a_job,
        tenants_take_turns_over_successive_claims,
        store_tells_when_the_next_job_is_due,
    }
    hand_off { lone_job_is_leased_with_its_submission, known_key_is_not_handed_off }
    leases {
        renewals_are_answered_one_by_one_in_order,
        swept_worker_cannot_write,
        sweep_puts_back_what_was_lost,
    }
    settle {
        batch_of_settlements_ends_each_attempt,
        settlement_carries_its_last_words,
        cancel_racing_completion_leaves_one_end,
    }
    steps {
        concurrent_checkpoints_are_all_kept,
        other_output_under_a_stored_name_is_refused,
    }
    control {
        running_job_is_asked_to_stop,
        resume_keeps_finished_steps,
        fork_shares_exactly_the_steps_before_the_fork_point,
        purged_job_is_gone_in_every_way,
    }
    history { watchers_see_every_transition_once_however_often_they_look }
    list { pages_have_no_gap_and_no_repeat, list_by_labels }
    queues { queue_counts_what_waits_and_what_runs, paused_queue_is_not_claimed_from }
    retention { finished_job_is_kept_for_its_own_retention }
    tenancy { other_tenants_see_not_found_whatever_they_ask }
    versions { glimpses_come_in_the_order_asked }
    output_streams {
        output_is_read_in_order_from_any_position,
        late_worker_cannot_append_output,
        output_of_ended_attempts_is_pruned,
    }
    replicas { name_of_a_living_replica_is_not_given_away }
    usage { every_end_is_counted_once, nothing_is_lost_while_replicas_sum_up }
    durability { everything_acknowledged_survives_reopening }
}
