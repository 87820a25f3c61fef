//! Where programs run.

use std::fs;
use std::path::Path;

use crate::workshop::{Workshop, result};
use longhaul_kinds::command::clear_work_root;
use serde_json::{Value, json};

#[tokio::test]
async fn working_folder_is_private_and_gone_afterwards() {
    let shop = Workshop::new();
    let text = r#"mkdir -p a/b; echo secret >a/b/c; mode=$(ls -ld . | cut -c1-10)
printf '["%s", "%s", "%s"]' "$(pwd)" "$TMPDIR" "$mode""#;
    let said = result(&shop.run(shop.single(text), json!({})).await);
    let folder = Path::new(said[0].as_str().unwrap());
    assert_eq!(said, json!([folder, folder, "drwx------"]));
    assert!(folder.starts_with(shop.work_root()), "{folder:?}");
    assert!(!folder.exists());
}

#[tokio::test]
async fn working_folder_is_gone_after_a_failure_and_new_in_each_attempt() {
    let shop = Workshop::new();
    let text = "[ -e left ] && exit 1; touch left; [ $LONGHAUL_ATTEMPT = 3 ] || exit 75";
    result(&shop.run(shop.single(text), json!({})).await);
    assert_eq!(fs::read_dir(shop.work_root()).unwrap().count(), 0);
}

#[tokio::test]
async fn environment_is_a_short_list() {
    let shop = Workshop::new();
    let text = r#"printf '"%s"' "$(env | tr '\n' ' ')""#;
    let kind = shop.single(text).env("INDEX_URL", "here").env("LONGHAUL_ATTEMPT", "9");
    let record = shop.run(kind, json!({})).await;
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
async fn what_a_killed_server_left_can_be_cleared() {
    let shop = Workshop::new();
    clear_work_root(&shop.work_root()).unwrap();
    fs::create_dir_all(shop.work_root().join("01KA-1-x/deep")).unwrap();
    clear_work_root(&shop.work_root()).unwrap();
    assert!(!shop.work_root().exists());
    assert_eq!(result(&shop.run(shop.single("exit 0"), json!({})).await), Value::Null);
}
