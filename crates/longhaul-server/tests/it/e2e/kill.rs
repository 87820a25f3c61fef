//! `kill -9`, again and again, under load.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use longhaul_client::wire::{Job, Status, Step, SubmitRequest};
use longhaul_client::{Client, ListRequest, SubmitOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::watch::{Watch, legal_history, saw_all};
use crate::harness::{Installation, TestProcess};

/// Each round submits this many jobs, a quarter of them pipelines.
const JOBS_PER_ROUND: usize = 24;
/// The first kill of a round comes after up to so many signs of life: fewer than a round gives.
const SIGNS_MAX: usize = 40;

/// Observations of one job by a client across server restarts.
struct Witness {
    key: String,
    id: String,
    /// Every event, as it came.
    seen: Vec<Job>,
    /// Every checkpoint, as it was first seen.
    steps: BTreeMap<String, Step>,
}

/// Each step notes that it runs, works for a moment, and returns something that no other run of it
/// would return.
fn config(runs: &str) -> String {
    let step = |name| {
        let program = format!(
            "echo $LONGHAUL_JOB_ID {name} $LONGHAUL_ATTEMPT >>{runs}; sleep 0.01; echo [$$, $LONGHAUL_ATTEMPT]"
        );
        format!("{{ name = \"{name}\", command = [\"sh\", \"-c\", \"{program}\"] }}")
    };
    let steps = ["extract", "parse", "index"].map(step).join(", ");
    format!("[worker]\nconcurrency = 8\n[kinds.pipeline]\nsteps = [{steps}]\nmax_attempts = 1000\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_killed_at_random_loses_and_repeats_nothing() {
    let rounds = env("LONGHAUL_E2E_ROUNDS").unwrap_or(6);
    let seed = env("LONGHAUL_E2E_SEED").unwrap_or_else(rand::random);
    eprintln!("LONGHAUL_E2E_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let runs = tempfile::NamedTempFile::new().unwrap();
    let install = Arc::new(Installation::with(&config(runs.path().to_str().unwrap())));
    let (life, mut signs) = mpsc::unbounded_channel();
    let mut witnesses = JoinSet::new();
    let mut kills = 0;
    let mut server = install.start().await;
    for round in 0..rounds {
        for n in 0..JOBS_PER_ROUND {
            let kind = if n % 4 == 0 { "pipeline" } else { "demo" };
            let key = format!("{kind}-{round}-{n}");
            witnesses.spawn(witness(Arc::clone(&install), kind, key, life.clone()));
        }
        for _ in 0..random.random_range(1..=SIGNS_MAX) {
            signs.recv().await.unwrap();
        }
        moment(&mut random).await;
        server.kill9().await;
        kills += 1;
        // Now and then the next one does not live to be ready.
        if random.random_bool(0.3) {
            let early = TestProcess::spawn(install.serve());
            moment(&mut random).await;
            early.kill9().await;
            kills += 1;
        }
        server = install.start_after_kill().await;
        while signs.try_recv().is_ok() {}
    }
    let witnesses = witnesses.join_all().await;
    judge(&install, &witnesses, kills).await;
    judge_runs(&install, &std::fs::read_to_string(runs.path()).unwrap(), &witnesses).await;
    drop(server);
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Between two signs of life anything may be under way: up to 20 ms pass.
async fn moment(random: &mut StdRng) {
    let moment = Duration::from_micros(random.random_range(0..20_000));
    // tidy: allow(sleep) the fault is that the kill comes at a moment which nothing announces
    tokio::time::sleep(moment).await;
}

/// Submits one job until it is acknowledged, then watches it to its end.
async fn witness(
    install: Arc<Installation>,
    kind: &'static str,
    key: String,
    life: mpsc::UnboundedSender<()>,
) -> Witness {
    let client = install.client();
    let id = submit(&client, kind, &key).await;
    life.send(()).ok();
    let (mut seen, mut steps) = (Vec::new(), BTreeMap::new());
    let mut watch = Watch::new(&install, &id, None);
    while let Some(job) = watch.next().await {
        life.send(()).ok();
        seen.push(job);
        // Asked by the way: if the server is just being killed, there is nothing to learn.
        for step in client.steps(&id).await.unwrap_or_default() {
            let known = steps.entry(step.name.clone()).or_insert_with(|| step.clone());
            assert_eq!(*known, step, "a checkpoint never changes");
        }
    }
    // The response to a submission may be lost, so repeating it must return the same job.
    assert_eq!(submit(&client, kind, &key).await, id, "one job per key");
    Witness { key, id, seen, steps }
}

async fn submit(client: &Client, kind: &str, key: &str) -> String {
    let mut request = SubmitRequest::new(kind, &json!({"steps": 3, "sleep": "5ms"})).unwrap();
    request.max_attempts = Some(1_000);
    let once = SubmitOptions { idempotency_key: Some(key.to_owned()), wait: None };
    loop {
        match client.submit(&request, &once).await {
            Ok(job) => return job.job_id,
            // The client waits between its tries, so this does not spin.
            Err(error) if error.is_transient() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Everything that a history checker can decide from outside.
async fn judge(install: &Installation, witnesses: &[Witness], kills: u32) {
    let mut by_key: HashMap<String, Vec<String>> = HashMap::new();
    let client = install.client();
    let mut page = ListRequest { limit: Some(1_000), ..ListRequest::default() };
    loop {
        let list = client.list(&page).await.unwrap();
        for job in list.jobs {
            by_key.entry(job.idempotency_key.unwrap()).or_default().push(job.job_id);
        }
        let Some(cursor) = list.next_cursor else { break };
        page.cursor = Some(cursor);
    }
    assert_eq!(by_key.len(), witnesses.len(), "as many jobs as keys");
    for Witness { key, id, seen, steps } in witnesses {
        assert_eq!(by_key[key], std::slice::from_ref(id), "one job per key");
        let history = legal_history(install, id).await;
        saw_all(seen, &history);
        let last = history.last().unwrap();
        assert_eq!(last.status, Status::Completed, "{last:?}");
        assert!(last.attempt <= kills + 1, "more attempts than reasons for them: {last:?}");
        let kept = client.steps(id).await.unwrap();
        assert_eq!(kept.len(), 3, "{kept:?}");
        for step in steps.values() {
            assert!(kept.contains(step), "a checkpoint that was seen is kept: {step:?} {kept:?}");
        }
    }
}

/// No step ran in an attempt after the one that left its checkpoint, nor twice in one attempt.
async fn judge_runs(install: &Installation, runs: &str, witnesses: &[Witness]) {
    let mut times: HashMap<(&str, &str, u32), u32> = HashMap::new();
    for line in runs.lines() {
        let [id, step, attempt] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}")
        };
        *times.entry((id, step, attempt.parse().unwrap())).or_default() += 1;
    }
    let mut finished: HashMap<(String, String), u32> = HashMap::new();
    for witness in witnesses.iter().filter(|witness| witness.key.starts_with("pipeline")) {
        for step in install.client().steps(&witness.id).await.unwrap() {
            finished.insert((witness.id.clone(), step.name), step.attempt);
        }
    }
    assert!(!times.is_empty());
    for ((id, step, attempt), times) in times {
        let checkpoint = finished[&(id.to_owned(), step.to_owned())];
        assert!(attempt <= checkpoint, "{id}: {step} ran again in {attempt}, after {checkpoint}");
        assert_eq!(times, 1, "{id}: {step} ran twice in attempt {attempt}");
    }
}

/// The name of a killed server is still that of a living one, for all that its database knows.
#[tokio::test]
async fn killed_server_restarts_at_once_with_its_replica_name() {
    let install = Installation::with("replica = 'blue'\n");
    for _ in 0..2 {
        let server = install.start_after_kill().await;
        let replicas = install.client().replicas().await.unwrap();
        assert_eq!((replicas.len(), replicas[0].name.as_str()), (1, "blue"));
        server.kill9().await;
    }
}
