//! Replay: matches the steps that the code starts with the stored ones. Pure.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::job::{JobError, Json, Step};

/// The stored steps of a job, and the steps that its code has requested so far.
///
/// Steps are identified by name. If the stored steps are a plain sequence, each requested right
/// after the one before it and none left out, then the code that stored them was a plain sequence
/// too. In that case an unknown step before a stored one, or a stored one that is never requested,
/// means that the code has changed. If steps ran concurrently, or one failed and the handler
/// continued, the same code may request them in another order, so that only names are compared.
pub(super) struct Replay {
    /// Names of the stored steps, in order.
    stored: Vec<String>,
    /// True if the stored steps are a plain sequence.
    sequence: bool,
    /// Outputs of the stored steps that were not requested yet.
    unrequested: HashMap<String, Json>,
    requested: Vec<String>,
    requested_names: HashSet<String>,
    versions: (Option<String>, Option<String>),
}

#[derive(Debug, PartialEq)]
pub(super) enum StepLookup {
    /// The step is finished, with this output.
    Stored(Json),
    /// The step must run.
    Fresh {
        /// Position in the order of requests, from 0.
        position: u32,
    },
}

impl Replay {
    pub(super) fn new(steps: &[Step], started_by: Option<&str>, now: Option<&str>) -> Self {
        let in_order = |(index, step): (u32, &Step)| step.alone && step.position == index;
        Self {
            stored: steps.iter().map(|step| step.name.clone()).collect(),
            sequence: (0..).zip(steps).all(in_order),
            unrequested: steps
                .iter()
                .map(|step| (step.name.clone(), step.output.clone()))
                .collect(),
            requested: Vec::new(),
            requested_names: HashSet::new(),
            versions: (started_by.map(str::to_owned), now.map(str::to_owned)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.requested.len()
    }

    pub(super) fn lookup(&mut self, name: &str) -> Result<StepLookup, JobError> {
        if !self.requested_names.insert(name.to_owned()) {
            let message = format!(
                "step {name:?} was started twice; give each step of a job a unique name, for example \
                 \"{name}-1\""
            );
            return Err(JobError::new("step-twice", message, false));
        }
        let position = u32::try_from(self.requested.len()).unwrap_or(u32::MAX);
        self.requested.push(name.to_owned());
        match self.unrequested.remove(name) {
            Some(output) => Ok(StepLookup::Stored(output)),
            None => self.finish().map(|()| StepLookup::Fresh { position }),
        }
    }

    /// Checks that all stored steps of a sequence were requested, when the code starts a new step
    /// or returns.
    pub(super) fn finish(&self) -> Result<(), JobError> {
        if self.sequence && !self.unrequested.is_empty() { Err(self.difference()) } else { Ok(()) }
    }

    /// Describes the difference between the stored and the requested steps.
    fn difference(&self) -> JobError {
        let version =
            |version: &Option<String>| version.clone().unwrap_or_else(|| "unnamed".into());
        let mut text = format!(
            "the code no longer asks for the steps that this job has finished \
             (started by version {}, now {}):\n",
            version(&self.versions.0),
            version(&self.versions.1),
        );
        let mut requested = self.requested.iter().peekable();
        for step in &self.stored {
            let mark = if requested.next_if_eq(&step).is_some() { ' ' } else { '-' };
            writeln!(text, "  {mark} {step}").ok();
        }
        for name in requested {
            writeln!(text, "  + {name}").ok();
        }
        text.push_str(
            "Resume it with the code that started it, or fork it from the first step that differs.",
        );
        JobError::new("code-changed", text, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    fn stored(steps: &[(&str, bool)]) -> Vec<Step> {
        let at = Timestamp::from_millis(0);
        let step = |(place, (name, alone)): (usize, &(&str, bool))| Step {
            name: (*name).to_owned(),
            position: u32::try_from(place).unwrap(),
            output: Json::from_value(name).unwrap(),
            alone: *alone,
            attempt: 1,
            started_at: at,
            completed_at: at,
        };
        steps.iter().enumerate().map(step).collect()
    }

    fn replay(steps: &[(&str, bool)]) -> Replay {
        Replay::new(&stored(steps), Some("1.0"), Some("1.1"))
    }

    #[test]
    fn stored_steps_are_replayed_and_new_ones_run() {
        let mut replay = replay(&[("fetch", true), ("parse", true)]);
        assert_eq!(
            replay.lookup("fetch").unwrap(),
            StepLookup::Stored(Json::from_value("fetch").unwrap())
        );
        assert_eq!(
            replay.lookup("parse").unwrap(),
            StepLookup::Stored(Json::from_value("parse").unwrap())
        );
        assert_eq!(replay.lookup("index").unwrap(), StepLookup::Fresh { position: 2 });
        assert!(replay.finish().is_ok());
    }

    #[test]
    fn renamed_step_is_detected_before_it_runs() {
        let mut replay = replay(&[("fetch", true), ("parse", true), ("index", true)]);
        replay.lookup("fetch").unwrap();
        let error = replay.lookup("transform").unwrap_err();
        assert_eq!((error.code.as_str(), error.retryable), ("code-changed", false));
        insta::assert_snapshot!(error.message, @r"
        the code no longer asks for the steps that this job has finished (started by version 1.0, now 1.1):
            fetch
          - parse
          - index
          + transform
        Resume it with the code that started it, or fork it from the first step that differs.
        ");
    }

    #[test]
    fn removed_step_is_detected_when_the_code_returns() {
        let mut replay = replay(&[("fetch", true), ("parse", true)]);
        replay.lookup("fetch").unwrap();
        assert!(replay.finish().unwrap_err().message.contains("- parse"));
    }

    #[test]
    fn swapped_steps_keep_their_outputs() {
        let mut replay = replay(&[("one", true), ("two", true)]);
        assert!(matches!(replay.lookup("two").unwrap(), StepLookup::Stored(_)));
        assert!(matches!(replay.lookup("one").unwrap(), StepLookup::Stored(_)));
        assert!(replay.finish().is_ok());
    }

    #[test]
    fn concurrent_steps_may_be_requested_in_any_order_or_not_at_all() {
        let mut replay = replay(&[("left", true), ("right", false)]);
        assert_eq!(replay.lookup("middle").unwrap(), StepLookup::Fresh { position: 0 });
        assert!(matches!(replay.lookup("right").unwrap(), StepLookup::Stored(_)));
        assert!(replay.finish().is_ok());
    }

    /// The first step failed, the handler continued, and only the second step is stored.
    #[test]
    fn failed_step_that_was_ignored_may_be_requested_again() {
        let mut steps = stored(&[("next", true)]);
        steps[0].position = 1;
        let mut replay = Replay::new(&steps, None, None);
        assert_eq!(replay.lookup("optional").unwrap(), StepLookup::Fresh { position: 0 });
        assert!(matches!(replay.lookup("next").unwrap(), StepLookup::Stored(_)));
    }

    #[test]
    fn step_name_used_twice_is_rejected_with_advice() {
        let mut replay = replay(&[]);
        replay.lookup("page").unwrap();
        let error = replay.lookup("page").unwrap_err();
        assert_eq!(error.code, "step-twice");
        assert!(error.message.contains("page-1"), "{error}");
    }
}
