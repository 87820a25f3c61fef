//! Working folder and environment of programs.

use std::fs;
use std::path::Path;

use crate::support::{TestPrograms, result};
use longhaul_kinds::command::clear_work_root;
use serde_json::{Value, json};

#[tokio::test]
async fn working_folder_is_private_and_deleted_afterwards() {
    let programs = TestPrograms::new();
    let text = r#"mkdir -p a/b; echo secret >a/b/c; mode=$(ls -ld . | cut -c1-10)
printf '["%s", "%s", "%s"]' "$(pwd)" "$TMPDIR" "$mode""#;
    let said = result(&programs.run(programs.single(text), json!({})).await);
    let folder = Path::new(said[0].as_str().unwrap());
    assert_eq!(said, json!([folder, folder, "drwx------"]));
    assert!(folder.starts_with(programs.work_root()), "{folder:?}");
    assert!(!folder.exists());
}

#[tokio::test]
async fn working_folder_is_new_in_each_attempt() {
    let programs = TestPrograms::new();
    let text = "[ -e left ] && exit 1; touch left; [ $LONGHAUL_ATTEMPT = 3 ] || exit 75";
    result(&programs.run(programs.single(text), json!({})).await);
    assert_eq!(fs::read_dir(programs.work_root()).unwrap().count(), 0);
}

#[tokio::test]
async fn program_environment_is_an_allow_list() {
    let programs = TestPrograms::new();
    let text = r#"printf '"%s"' "$(env | tr '\n' ' ')""#;
    let kind = programs.single(text).env("INDEX_URL", "here").env("LONGHAUL_ATTEMPT", "9");
    let record = programs.run(kind, json!({})).await;
    let said = result(&record);
    let said: Vec<_> = said.as_str().unwrap().split_whitespace().collect();
    let id = format!("LONGHAUL_JOB_ID={}", record.job.id);
    for given in ["INDEX_URL=here", "LONGHAUL_ATTEMPT=1", &id] {
        assert!(said.contains(&given), "{given} in {said:?}");
    }
    let mine = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "INDEX_URL"];
    let shells = ["PWD", "OLDPWD", "SHLVL", "_"];
    for (name, _) in said.iter().filter_map(|variable| variable.split_once('=')) {
        let expected = name.starts_with("LONGHAUL_") || mine.contains(&name);
        assert!(expected || shells.contains(&name), "{name} is not its business");
    }
}

#[tokio::test]
async fn work_root_of_a_killed_server_is_cleared() {
    let programs = TestPrograms::new();
    clear_work_root(&programs.work_root()).unwrap();
    fs::create_dir_all(programs.work_root().join("01KA-1-x/deep")).unwrap();
    clear_work_root(&programs.work_root()).unwrap();
    assert!(!programs.work_root().exists());
    assert_eq!(result(&programs.run(programs.single("exit 0"), json!({})).await), Value::Null);
}
