//! A conformance suite for every store and store wrapper.
//!
//! A case is a function over the trait, named after the guarantee that it checks. A difference between stores
//! is a capability that the [`StoreHarness`] declares; a case never checks for a store by name.
//!
//! ```text
//! fn file() -> StoreHarness { … }
//! longhaul::store_conformance!(sqlite_file, file());
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "failing loudly is what a case is for"
)]

pub mod blobs;
pub mod claim;
pub mod control;
pub mod durability;
pub mod hand_off;
mod harness;
pub mod history;
pub mod leases;
pub mod limits;
pub mod list;
pub mod output_streams;
pub mod queues;
pub mod rate_limits;
pub mod replicas;
pub mod retention;
pub mod settle;
pub mod steps;
pub mod submit;
pub mod tenancy;
pub mod usage;
pub mod versions;

pub use harness::{
    LEASE, StoreHarness, TICK, demo, done, failed, failed_for_good, json, name, settlement, tenant,
};

/// Generates a module with one test per case, run on the store of the given [`StoreHarness`]. The expression
/// is evaluated once per case, in an async function.
#[macro_export]
macro_rules! store_conformance {
    ($store:ident, $harness:expr) => {
        $crate::store_conformance! { @cases $store, $harness,
            submit {
                accepted_job_is_readable,
                accepted_job_is_what_was_submitted,
                input_is_kept_byte_for_byte,
                same_key_and_input_give_the_same_job,
                known_key_answers_with_the_job_as_it_stands_now,
                key_reused_with_another_input_is_refused,
                hundred_concurrent_submissions_of_a_key_make_one_job,
                key_twice_in_one_batch_makes_one_job,
                refused_submission_does_not_touch_the_others_of_its_batch,
                empty_batches_are_fine,
                two_tenants_may_use_the_same_key,
                job_is_found_by_its_key,
                key_is_free_after_purge,
                key_is_free_after_retention,
                delayed_job_is_not_claimed_before_it_is_due,
                job_asked_for_in_the_past_is_due_at_once,
                jobs_of_a_batch_keep_their_own_words,
            }
            blobs {
                payload_is_kept_with_its_job,
                known_key_keeps_the_first_payload,
                payload_stays_while_the_job_goes_on,
                payload_is_unreadable_from_the_end_on,
                job_whose_payload_is_gone_is_neither_resumed_nor_forked,
                payload_that_nobody_claims_fails_its_job,
                payload_of_a_claimed_job_does_not_expire,
                artifacts_come_with_completion,
                artifacts_of_a_repeated_settlement_are_stored_once,
                artifacts_go_with_their_job,
                failed_deletion_is_tried_again,
                strays_are_what_no_job_knows,
                folders_are_on_record,
                stored_bytes_are_counted_by_tenant,
                blobs_are_their_tenants_own,
            }
            claim {
                lease_holds_the_job_as_claimed,
                claimed_job_is_not_claimed_again,
                concurrent_claims_never_share_a_job,
                jobs_are_claimed_by_due_time_then_by_id,
                higher_priority_goes_first,
                higher_priority_goes_first_among_jobs_that_were_put_off,
                waiting_a_minute_outweighs_a_point_of_priority,
                urgent_job_that_is_not_due_is_passed_over,
                limit_is_respected,
                room_of_each_kind_is_respected,
                unknown_kinds_are_left_to_others,
                tenant_with_one_job_is_in_the_first_claim_of_two,
                tenants_take_turns_over_successive_claims,
                claim_is_filled_by_one_tenant_if_no_other_has_work,
                jobs_in_thousands_of_queues_are_all_claimed,
                store_tells_when_the_next_job_is_due,
                epochs_rise_with_every_claim,
                attempt_is_charged_at_claim,
                attempt_that_was_given_back_is_not_charged_again,
                code_version_is_that_of_the_first_claim,
                started_at_is_the_start_of_the_first_attempt,
            }
            hand_off {
                lone_job_is_leased_with_its_submission,
                handed_off_job_is_settled_and_retried_like_others,
                handed_off_job_of_a_dead_process_is_rescued,
                due_job_of_the_tenant_goes_before_a_handed_off_one,
                jobs_that_are_not_claimable_hold_no_job_back,
                job_in_a_paused_queue_is_not_handed_off,
                job_that_has_to_wait_is_not_handed_off,
                known_key_is_not_handed_off,
            }
            leases {
                renewed_lease_goes_on,
                renewal_extends_from_now,
                renewal_tells_of_a_cancel_request,
                renewals_are_answered_one_by_one_in_order,
                lease_on_an_unknown_job_is_lost,
                lease_with_an_epoch_from_the_future_is_lost,
                late_worker_cannot_renew,
                late_renewal_does_not_extend_the_current_lease,
                late_worker_cannot_report,
                late_worker_cannot_checkpoint,
                late_worker_cannot_settle,
                swept_worker_cannot_write,
                late_worker_cannot_write_to_a_finished_job,
                lost_lease_does_not_touch_the_others_of_its_batch,
                sweep_puts_back_what_was_lost,
                sweep_leaves_live_leases_alone,
                job_that_kills_its_workers_fails_after_its_attempts,
                sweep_cancels_what_was_asked_to_stop,
                sweep_respects_its_limit,
                sweep_serves_all_tenants,
            }
            settle {
                completed_job_has_its_result,
                null_is_a_result,
                only_a_completed_job_has_a_result,
                retryable_error_puts_the_job_back_in_line,
                retryable_error_fails_the_job_once_its_attempts_are_used_up,
                fatal_error_fails_the_job_at_once,
                error_of_an_earlier_attempt_is_gone_once_completed,
                released_job_is_due_at_once,
                sleeping_job_goes_on_when_it_said,
                uncharged_failure_keeps_the_attempt_and_shows_its_error,
                handler_that_stops_ends_its_job_as_cancelled,
                completion_wins_over_a_late_cancel,
                job_asked_to_stop_never_goes_back_in_line,
                settling_again_changes_nothing_and_is_fine,
                settling_again_does_not_touch_the_next_attempt,
                settled_attempt_cannot_write,
                settlement_carries_its_last_words,
                cancel_racing_completion_leaves_one_end,
                batch_of_settlements_ends_each_attempt,
                batch_with_a_lost_lease_ends_the_others,
            }
            steps {
                checkpoint_is_kept_as_it_was_given,
                same_checkpoint_again_is_fine,
                other_output_under_a_stored_name_is_refused,
                steps_come_in_their_order,
                later_attempts_see_what_earlier_ones_finished,
                steps_are_readable_after_the_end,
                steps_belong_to_their_job,
                concurrent_checkpoints_are_all_kept,
            }
            control {
                cancelled_job_is_not_claimed,
                running_job_is_asked_to_stop,
                checkpoint_reports_the_request_to_stop,
                concurrent_checkpoints_report_the_requests_of_their_jobs,
                asking_twice_to_stop_changes_nothing,
                cancelling_a_cancelled_job_changes_nothing,
                ended_job_cannot_be_cancelled,
                resumed_job_is_due_at_once,
                resume_forgets_the_request_to_stop,
                resume_keeps_finished_steps,
                resume_grants_as_many_attempts_as_at_first,
                only_failed_and_cancelled_jobs_are_resumed,
                fork_is_a_new_pending_job_with_the_same_input,
                fork_shares_exactly_the_steps_before_the_fork_point,
                fork_and_parent_go_their_own_ways,
                fork_from_an_unknown_step_is_refused,
                purged_job_is_gone_in_every_way,
                only_ended_jobs_are_purged,
            }
            history {
                every_transition_is_one_event,
                events_tell_who_and_why,
                watchers_see_every_transition_once_however_often_they_look,
                each_phase_is_an_event,
                phase_ends_with_its_attempt,
                phase_is_cancelling_until_the_job_stops,
                progress_raises_the_version_and_is_no_event,
                reports_are_answered_one_by_one,
                version_rises_with_every_change,
                history_survives_ends_without_an_attempt,
                terminal_event_is_one_and_last,
                fork_begins_its_own_history,
            }
            list {
                jobs_are_listed_newest_first,
                pages_have_no_gap_and_no_repeat,
                new_jobs_do_not_shift_the_pages,
                filtered_pages_are_full,
                pages_without_matches_are_empty_and_lead_to_the_end,
                short_pages_contain_every_match_once,
                list_by_status,
                list_by_kind_and_queue,
                list_by_labels,
                list_by_time_of_acceptance,
            }
            queues {
                queue_counts_what_waits_and_what_runs,
                job_that_is_not_due_does_not_age_its_queue,
                queues_are_counted_by_themselves,
                paused_queue_is_not_claimed_from,
                paused_queue_is_listed_while_empty,
                pausing_twice_is_fine,
                pausing_stops_one_tenant_only,
                queue_totals_sum_over_all_tenants,
                long_paused_queue_does_not_hide_what_is_behind_it,
                resumed_queue_is_back_where_it_would_have_been,
                job_that_becomes_due_in_a_paused_queue_stays_there,
                only_pending_jobs_are_counted_as_pending,
                pending_jobs_are_counted_for_one_tenant_only,
                pending_jobs_are_counted_for_one_queue_only,
                pending_jobs_are_counted_no_further_than_asked,
            }
            limits {
                queue_limit_counts_all_tenants,
                kind_limit_counts_all_queues,
                tenant_limit_is_each_tenants_own,
                every_limit_that_is_about_a_job_holds,
                replicas_at_once_never_exceed_a_limit,
                tenant_may_have_a_limit_of_its_own,
                limit_frees_up_however_an_attempt_ends,
                end_that_is_told_twice_gives_back_once,
                limited_queue_does_not_hold_back_others_behind_it,
                limited_tenant_does_not_hold_back_other_tenants,
                limited_kind_does_not_hold_back_other_kinds,
                room_that_a_limit_leaves_is_filled_by_others,
                jobs_that_began_without_a_limit_are_not_counted,
                lowered_limit_counts_what_runs,
                lifted_limit_leaves_the_counts_right,
                limit_of_zero_lets_nothing_start,
                counts_survive_reopening,
                job_that_is_tried_again_is_counted_once,
            }
            rate_limits {
                rate_is_respected_and_refills_with_time,
                burst_is_bounded_by_the_rate,
                rate_of_tenants_is_each_tenants_own,
                replicas_at_once_share_a_rate,
                claim_tells_when_a_rate_lets_the_next_job_start,
            }
            retention {
                finished_job_is_kept_for_its_own_retention,
                job_cancelled_in_line_is_kept_too,
                unfinished_job_never_expires,
                resumed_job_does_not_expire,
                fork_is_kept_as_long_as_its_parent_would_be,
                expire_respects_its_limit,
                unknown_job_is_not_found,
                gone_job_is_forgotten_in_the_end,
            }
            tenancy {
                other_tenants_see_not_found_whatever_they_ask,
                other_tenants_see_nothing_in_lists,
                page_may_start_at_a_foreign_id,
                lease_under_another_tenant_is_lost,
                claims_name_the_tenant_of_each_job,
            }
            versions {
                glimpse_shows_version_and_status,
                glimpse_shows_the_request_to_stop,
                glimpse_of_a_job_that_is_not_there_is_none,
                other_tenants_jobs_are_not_glimpsed,
                glimpses_come_in_the_order_asked,
                glimpse_of_nothing_is_fine,
            }
            output_streams {
                output_is_read_in_order_from_any_position,
                output_of_many_jobs_is_appended_and_read_at_once,
                output_that_is_appended_again_is_stored_once,
                late_worker_cannot_append_output,
                settled_attempt_cannot_append_output,
                output_of_the_newest_attempt_is_read,
                output_of_other_tenants_is_not_read,
                trimmed_output_is_gone_and_the_rest_stays,
                output_of_ended_attempts_is_pruned,
            }
            replicas {
                beat_is_shown_as_it_was_given,
                later_beat_replaces_the_earlier_one,
                replicas_come_by_name,
                silent_replica_is_not_alive,
                replica_that_left_is_forgotten,
                replica_that_is_silent_for_long_is_forgotten,
                name_of_a_living_replica_is_not_given_away,
                ended_process_is_replaced_at_once,
                name_that_changed_hands_is_not_taken_over,
                name_of_a_silent_replica_is_given_to_the_next_run,
            }
            usage {
                tokens_are_counted_by_the_attempt_that_ends,
                every_end_is_counted_once,
                settling_again_counts_nothing,
                attempts_are_counted_with_their_job,
                job_cancelled_between_attempts_is_counted_with_what_it_did,
                resumed_job_adds_what_is_new,
                lost_attempt_ran_until_its_lease_ended,
                attempt_that_outlives_its_store_is_counted,
                fork_is_counted_for_what_it_did_itself,
                payload_is_counted_once,
                usage_is_told_by_hour_kind_and_key,
                usage_is_the_tenants_own,
                usage_outlives_the_jobs,
                nothing_is_lost_while_replicas_sum_up,
            }
            durability {
                everything_acknowledged_survives_reopening,
                leases_survive_reopening,
                decisions_survive_reopening,
            }
        }
    };
    (@cases $store:ident, $harness:expr, $($theme:ident { $($case:ident),* $(,)? })*) => {
        mod $store {
            $(mod $theme {
                #[allow(unused_imports, reason = "the harness may be made from a full path")]
                use super::super::*;

                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let harness: $crate::store::conformance::StoreHarness = $harness;
                    $crate::store::conformance::$theme::$case(&harness).await;
                })*
            })*
        }
    };
}

#[cfg(test)]
mod tests {
    /// A case that is missing from the list would never run.
    #[test]
    fn every_case_is_in_the_list() {
        let list = include_str!("conformance.rs");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/conformance");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let theme = path.file_stem().unwrap().to_str().unwrap();
            let cases = list.split_once(&format!("            {theme} {{\n"));
            let cases = cases.map_or("", |(_, rest)| rest.split_once('}').unwrap().0);
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines() {
                if let Some(case) = line.strip_prefix("pub async fn ") {
                    let case = case.split('(').next().unwrap();
                    assert!(
                        cases.contains(&format!(" {case},\n")),
                        "{theme}: {case} is not listed"
                    );
                }
            }
        }
    }
}
