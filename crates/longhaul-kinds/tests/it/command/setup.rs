//! Descriptions that cannot be a kind.

use longhaul_kinds::command::{CommandKind, PipelineStep, Program};

fn refusal(program: Program) -> String {
    CommandKind::new("work", program, "work").build().unwrap_err().to_string()
}

#[test]
fn program_must_be_named() {
    for argv in [vec![], vec![String::new()]] {
        let why = refusal(Program::Single { argv });
        assert_eq!(why, "the kind \"work\" names no program to run");
    }
    let steps = vec![PipelineStep::new("one", ["true"]), PipelineStep::new("two", [""])];
    let why = refusal(Program::Pipeline { steps });
    assert_eq!(why, "the step \"two\" of the kind \"work\" names no program to run");
}

#[test]
fn pipeline_has_steps_with_names_of_their_own() {
    let why = refusal(Program::Pipeline { steps: vec![] });
    assert_eq!(why, "the kind \"work\" is a pipeline without steps");
    let steps = vec![PipelineStep::new("one", ["true"]), PipelineStep::new("one", ["true"])];
    let why = refusal(Program::Pipeline { steps });
    assert_eq!(why, "the pipeline of the kind \"work\" has two steps \"one\"");
}

#[test]
fn description_holds_no_arguments() {
    let argv = vec!["curl".to_owned(), "--user=me:secret".to_owned()];
    let kind = CommandKind::new("work", Program::Single { argv }, "work").build().unwrap();
    assert_eq!(kind.settings().description.as_str(), "runs curl");
}
