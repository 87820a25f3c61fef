//! Invariants of a run, decided from the ledger and from what the store holds in the end.
//!
//! A violation begins with the name of its rule in brackets.

mod attempts;
mod cancellations;
mod jobs;

use std::collections::BTreeMap;

use longhaul::job::{Record, Step};
use longhaul::{JobId, Timestamp};

use super::ledger::{Entry, Event};
use super::plan::Plan;
use crate::random::checker::CheckResult;

/// Everything that is known of a run after its end.
pub(super) struct History {
    pub(super) plan: Plan,
    pub(super) ledger: Vec<Entry>,
    pub(super) jobs: BTreeMap<JobId, FinalJob>,
}

/// A job in the store after the run.
pub(super) struct FinalJob {
    pub(super) record: Record,
    pub(super) steps: Vec<Step>,
}

/// Checks all invariants.
pub(super) fn check(history: &History) -> CheckResult {
    jobs::acknowledged_jobs_exist(history)?;
    jobs::keys_name_one_job(history)?;
    jobs::histories_are_legal(history)?;
    jobs::results_consist_of_stored_outputs(history)?;
    attempts::finished_steps_do_not_run_again(history)?;
    attempts::one_attempt_runs_at_a_time(history)?;
    cancellations::at_most_the_step_under_way_finishes(history)?;
    cancellations::notified_engines_drop_the_step_under_way(history)?;
    attempts::only_lost_workers_cost_attempts(history)?;
    attempts::registry_shows_running_engines(history)?;
    jobs::errors_are_planned(history)?;
    jobs::jobs_have_ended(history)
}

impl History {
    /// Returns the number of a replica from the name of one of its engines.
    fn replica(name: &str) -> usize {
        let number = name.strip_prefix('r').and_then(|name| name.split('.').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
    }

    /// Returns whether an entry of this engine matches, up to a time.
    fn any(&self, engine: &str, until: Timestamp, matches: impl Fn(&Entry) -> bool) -> bool {
        let entries = self.ledger.iter().take_while(|entry| entry.at <= until);
        entries.filter(|entry| entry.replica == engine).any(matches)
    }

    /// Returns the bodies of steps.
    fn bodies(&self) -> Vec<Body<'_>> {
        let mut handler_at = BTreeMap::new();
        let mut bodies: BTreeMap<(u64, &str), Body<'_>> = BTreeMap::new();
        for entry in &self.ledger {
            if let Event::HandlerBegan { run, .. } = &entry.event {
                handler_at.insert(*run, entry.at);
            }
            if let Event::StepBegan { run, job, step } = &entry.event {
                let body = Body {
                    engine: &entry.replica,
                    job: *job,
                    step,
                    handler_at: handler_at.get(run).copied().unwrap_or(entry.at),
                    began_at: entry.at,
                    ended_at: None,
                };
                bodies.insert((*run, step), body);
            }
            if let Event::StepEnded { run, step, .. } = &entry.event
                && let Some(body) = bodies.get_mut(&(*run, step.as_str()))
            {
                body.ended_at = Some(entry.at);
            }
        }
        bodies.into_values().collect()
    }
}

/// One execution of a step's body.
struct Body<'a> {
    engine: &'a str,
    job: JobId,
    step: &'a str,
    /// Begin of the call of the handler.
    handler_at: Timestamp,
    began_at: Timestamp,
    /// `None` if its engine was killed before.
    ended_at: Option<Timestamp>,
}
