//! `longhaul receipt`.

use longhaul_client::Client;
use longhaul_client::wire::{Receipt, Stored, StoredRole};

use crate::cli::output::color::{Paint, Style};
use crate::cli::{CliResult, Ui};

pub(crate) async fn run(id: &str, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let receipt = client.receipt(id).await?;
    let mut text = summary(&receipt, ui.out_style);
    if !receipt.stored.is_empty() {
        text.extend(["\n\n", &ui.table(&receipt.stored)]);
    }
    ui.print(&receipt, &text)
}

/// Formats what can still be read, then what is still stored.
fn summary(receipt: &Receipt, style: Style) -> String {
    let (paint, verdict) = verdict(receipt);
    let job = if receipt.job_gone { "the job is deleted" } else { "the job exists" };
    let left = receipt.stored.iter().filter(|stored| stored.deleted_at.is_none()).count();
    let bytes = match (receipt.stored.len(), left) {
        (0, _) => String::new(),
        (_, 0) => ", everything stored is deleted".to_owned(),
        (all, left) => format!(", {left} of {all} stored objects are not deleted yet"),
    };
    let about = format!("{job}{bytes} (as of {})", receipt.at);
    format!("{}\n{}", style.paint(paint, &verdict), style.dim(&about))
}

fn verdict(receipt: &Receipt) -> (Paint, String) {
    let id = &receipt.job_id;
    if receipt.stored.is_empty() {
        let text = format!("No payload, artifact or folder is stored for job {id}.");
        return (Paint::Green, text);
    }
    if receipt.unreadable {
        return (Paint::Green, format!("Nothing stored for job {id} can be read any more."));
    }
    let all = receipt.stored.len();
    let readable = receipt.stored.iter().filter(|stored| is_readable(stored)).count();
    let text = format!("{readable} of {all} objects stored for job {id} can still be read.");
    (Paint::Yellow, text)
}

/// Encrypted data is unreadable without its key; a folder is plain text until it is deleted.
fn is_readable(stored: &Stored) -> bool {
    match stored.role {
        StoredRole::Payload | StoredRole::Artifact => stored.key_destroyed_at.is_none(),
        StoredRole::Folder => stored.deleted_at.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::table::table;
    use crate::cli::testing::now;

    fn stored(role: StoredRole, gone: bool) -> Stored {
        let at = || gone.then(|| "2026-11-15T08:00:04.200Z".into());
        let is_folder = role == StoredRole::Folder;
        Stored {
            role,
            name: if is_folder { "host-1:/tmp/job".to_owned() } else { "talk.mp4".to_owned() },
            content_type: String::new(),
            size: (!is_folder).then_some(1_572_864),
            sha256: None,
            stored_at: "2026-11-15T08:00:00.000Z".into(),
            stored_by: "blue".to_owned(),
            key_destroyed_at: at().filter(|_| !is_folder),
            deleted_at: at(),
            deleted_by: gone.then(|| "green".to_owned()),
            failed_deletions: u32::from(is_folder) * 2,
        }
    }

    fn receipt_text(stored: Vec<Stored>) -> String {
        let receipt = Receipt {
            job_id: "01KA".to_owned(),
            job_gone: stored.is_empty(),
            at: "2026-11-15T08:00:09.000Z".into(),
            unreadable: !stored.iter().any(is_readable),
            deleted: stored.iter().all(|one| one.deleted_at.is_some()),
            stored,
        };
        let table = table(&receipt.stored, now(), Style::PLAIN);
        format!("{}\n\n{table}", summary(&receipt, Style::PLAIN))
    }

    #[test]
    fn receipt_begins_with_what_can_be_read() {
        use StoredRole::{Artifact, Folder, Payload};
        insta::assert_snapshot!(receipt_text(vec![stored(Payload, true), stored(Folder, true)]), @"
        Nothing stored for job 01KA can be read any more.
        the job exists, everything stored is deleted (as of 2026-11-15T08:00:09.000Z)

        WHAT     NAME             SIZE      STORED                    BY    KEY DESTROYED             DELETED                   BY
        payload  talk.mp4         1.50 MiB  2026-11-15T08:00:00.000Z  blue  2026-11-15T08:00:04.200Z  2026-11-15T08:00:04.200Z  green
        folder   host-1:/tmp/job            2026-11-15T08:00:00.000Z  blue  no key                    2026-11-15T08:00:04.200Z  green
        ");
        insta::assert_snapshot!(receipt_text(vec![stored(Payload, true), stored(Artifact, false), stored(Folder, false)]), @"
        2 of 3 objects stored for job 01KA can still be read.
        the job exists, 2 of 3 stored objects are not deleted yet (as of 2026-11-15T08:00:09.000Z)

        WHAT      NAME             SIZE      STORED                    BY    KEY DESTROYED             DELETED                   BY
        payload   talk.mp4         1.50 MiB  2026-11-15T08:00:00.000Z  blue  2026-11-15T08:00:04.200Z  2026-11-15T08:00:04.200Z  green
        artifact  talk.mp4         1.50 MiB  2026-11-15T08:00:00.000Z  blue  not yet                   not yet
        folder    host-1:/tmp/job            2026-11-15T08:00:00.000Z  blue  no key                    failed 2 times
        ");
        insta::assert_snapshot!(receipt_text(vec![]), @"
        No payload, artifact or folder is stored for job 01KA.
        the job is deleted (as of 2026-11-15T08:00:09.000Z)

        WHAT  NAME  SIZE  STORED  BY  KEY DESTROYED  DELETED  BY
        ");
    }
}
