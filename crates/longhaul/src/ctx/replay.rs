//! Matches what the code asks for with what is stored. Pure.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::job::{JobError, Json, Step};

/// The stored steps of a job, and what its code has asked for so far.
///
/// Steps are known by name. If the stored ones are a plain sequence, each asked for right after the
/// one before it and none left out, then the code that wrote them was a plain sequence too. There
/// an unknown step before a stored one, or a stored one that is never asked for, means that the
/// code has changed. Where steps ran side by side, or one failed and the handler went on, the same
/// code may ask differently from run to run, so nothing but the names binds.
pub(super) struct Replay {
    stored: Vec<Stored>,
    by_name: HashMap<String, usize>,
    /// Whether the stored steps are a plain sequence.
    sequence: bool,
    /// Stored steps that were not asked for yet.
    unasked: usize,
    asked: Vec<String>,
    asked_names: HashSet<String>,
    versions: (Option<String>, Option<String>),
}

struct Stored {
    name: String,
    output: Json,
}

/// What the code gets for a step it asks for.
#[derive(Debug, PartialEq)]
pub(super) enum StepLookup {
    /// It is finished: this is its output.
    Stored(Json),
    /// It is still to be done, at this place in the order.
    Fresh {
        /// From 0.
        position: u32,
    },
}

impl Replay {
    pub(super) fn new(steps: &[Step], started_by: Option<&str>, now: Option<&str>) -> Self {
        let stored: Vec<Stored> = steps
            .iter()
            .map(|step| Stored { name: step.name.clone(), output: step.output.clone() })
            .collect();
        let by_name =
            stored.iter().enumerate().map(|(place, step)| (step.name.clone(), place)).collect();
        let in_place = |(place, step): (usize, &Step)| {
            step.alone && usize::try_from(step.position).is_ok_and(|position| position == place)
        };
        Self {
            unasked: stored.len(),
            sequence: steps.iter().enumerate().all(in_place),
            stored,
            by_name,
            asked: Vec::new(),
            asked_names: HashSet::new(),
            versions: (started_by.map(str::to_owned), now.map(str::to_owned)),
        }
    }

    /// Steps asked for so far.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// The code asks for the step `name`.
    pub(super) fn ask(&mut self, name: &str) -> Result<StepLookup, JobError> {
        if !self.asked_names.insert(name.to_owned()) {
            let message = format!(
                "the step {name:?} was asked for twice; give each step of a job a name of its own, \
                 such as \"{name}-1\""
            );
            return Err(JobError::new("step-twice", message, false));
        }
        let position = u32::try_from(self.asked.len()).unwrap_or(u32::MAX);
        self.asked.push(name.to_owned());
        match self.by_name.get(name).and_then(|place| self.stored.get(*place)) {
            Some(step) => {
                self.unasked = self.unasked.saturating_sub(1);
                Ok(StepLookup::Stored(step.output.clone()))
            }
            None => self.finish().map(|()| StepLookup::Fresh { position }),
        }
    }

    /// The code goes on to something new, or has returned: of a sequence, everything that is stored
    /// must have been asked for.
    pub(super) fn finish(&self) -> Result<(), JobError> {
        if self.sequence && self.unasked > 0 { Err(self.difference()) } else { Ok(()) }
    }

    /// What is stored and what the code asks for, side by side.
    fn difference(&self) -> JobError {
        let version =
            |version: &Option<String>| version.clone().unwrap_or_else(|| "unnamed".into());
        let mut text = format!(
            "the code no longer asks for the steps that this job has finished \
             (started by version {}, now {}):\n",
            version(&self.versions.0),
            version(&self.versions.1),
        );
        let mut asked = self.asked.iter().peekable();
        for step in &self.stored {
            let mark = if asked.next_if(|name| **name == step.name).is_some() { ' ' } else { '-' };
            writeln!(text, "  {mark} {}", step.name).ok();
        }
        for name in asked {
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
    fn stored_steps_are_replayed_and_new_ones_go_on() {
        let mut replay = replay(&[("fetch", true), ("parse", true)]);
        assert_eq!(
            replay.ask("fetch").unwrap(),
            StepLookup::Stored(Json::from_value("fetch").unwrap())
        );
        assert_eq!(
            replay.ask("parse").unwrap(),
            StepLookup::Stored(Json::from_value("parse").unwrap())
        );
        assert_eq!(replay.ask("index").unwrap(), StepLookup::Fresh { position: 2 });
        assert!(replay.finish().is_ok());
    }

    #[test]
    fn renamed_step_is_found_before_it_runs_and_shown() {
        let mut replay = replay(&[("fetch", true), ("parse", true), ("index", true)]);
        replay.ask("fetch").unwrap();
        let error = replay.ask("transform").unwrap_err();
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
    fn removed_step_is_found_when_the_code_returns() {
        let mut replay = replay(&[("fetch", true), ("parse", true)]);
        replay.ask("fetch").unwrap();
        assert!(replay.finish().unwrap_err().message.contains("- parse"));
    }

    #[test]
    fn swapped_steps_keep_their_outputs() {
        let mut replay = replay(&[("one", true), ("two", true)]);
        assert!(matches!(replay.ask("two").unwrap(), StepLookup::Stored(_)));
        assert!(matches!(replay.ask("one").unwrap(), StepLookup::Stored(_)));
        assert!(replay.finish().is_ok());
    }

    #[test]
    fn steps_that_ran_side_by_side_may_come_in_any_order_or_not_at_all() {
        let mut replay = replay(&[("left", true), ("right", false)]);
        assert_eq!(replay.ask("middle").unwrap(), StepLookup::Fresh { position: 0 });
        assert!(matches!(replay.ask("right").unwrap(), StepLookup::Stored(_)));
        assert!(replay.finish().is_ok());
    }

    /// The handler tolerated that its first step failed: only the one after it is stored.
    #[test]
    fn step_that_failed_and_was_tolerated_may_be_asked_for_again() {
        let mut steps = stored(&[("next", true)]);
        steps[0].position = 1;
        let mut replay = Replay::new(&steps, None, None);
        assert_eq!(replay.ask("optional").unwrap(), StepLookup::Fresh { position: 0 });
        assert!(matches!(replay.ask("next").unwrap(), StepLookup::Stored(_)));
    }

    #[test]
    fn name_asked_for_twice_is_refused_with_advice() {
        let mut replay = replay(&[]);
        replay.ask("page").unwrap();
        let error = replay.ask("page").unwrap_err();
        assert_eq!(error.code, "step-twice");
        assert!(error.message.contains("page-1"), "{error}");
    }
}
