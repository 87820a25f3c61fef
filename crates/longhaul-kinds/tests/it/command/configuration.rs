//! Invalid configurations.

use longhaul_kinds::command::{CommandKind, PipelineStep, Program};

fn build_error(program: Program) -> String {
    CommandKind::new("work", program, "work").build().unwrap_err().to_string()
}

#[test]
fn command_without_a_program_is_rejected() {
    for argv in [vec![], vec![String::new()]] {
        let why = build_error(Program::Single { argv });
        assert_eq!(why, "the kind \"work\" has no program to run");
    }
    let steps = vec![PipelineStep::new("one", ["true"]), PipelineStep::new("two", [""])];
    let why = build_error(Program::Pipeline { steps });
    assert_eq!(why, "the step \"two\" of the kind \"work\" has no program to run");
}

#[test]
fn pipeline_needs_steps_with_unique_names() {
    let why = build_error(Program::Pipeline { steps: vec![] });
    assert_eq!(why, "the pipeline of kind \"work\" has no steps");
    let steps = vec![PipelineStep::new("one", ["true"]), PipelineStep::new("one", ["true"])];
    let why = build_error(Program::Pipeline { steps });
    assert_eq!(why, "the pipeline of kind \"work\" has two steps named \"one\"");
}

#[test]
fn kind_description_omits_folders_and_arguments() {
    for program in ["curl", "./curl", "/opt/tools/curl"] {
        let argv = vec![program.to_owned(), "--user=me:secret".to_owned()];
        let kind = CommandKind::new("work", Program::Single { argv }, "work").build().unwrap();
        assert_eq!(kind.settings().description.as_str(), "runs curl");
    }
}
