//! The engines of a run, which are killed, stopped and replaced.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::store::ReplicaStore as _;
use longhaul::{Clock, Engine, Timestamp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio_util::task::TaskTracker;

use super::ledger::Event;
use super::link::Link;
use super::plan::{Departure, derive};
use super::workload;
use super::world::World;

/// Interval between looks at the registry of replicas.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Cluster {
    world: Arc<World>,
    /// The running engine of each replica.
    running: Mutex<Vec<Option<Member>>>,
    starts: Mutex<Vec<u64>>,
}

/// A running engine and its connections.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) engine: Engine,
    pub(super) link: Arc<Link>,
}

impl Cluster {
    pub(super) fn new(world: &Arc<World>) -> Arc<Self> {
        let replicas = world.plan.replicas;
        let running = Mutex::new((0..replicas).map(|_| None).collect());
        Arc::new(Self { world: Arc::clone(world), running, starts: Mutex::new(vec![0; replicas]) })
    }

    /// Returns one of the running engines.
    pub(super) fn pick(&self, random: &mut StdRng) -> Option<Member> {
        let running: Vec<_> = self.running.lock().unwrap().iter().flatten().cloned().collect();
        running.choose(random).cloned()
    }

    pub(super) async fn start_all(&self) {
        for replica in 0..self.world.plan.replicas {
            self.start(replica).await;
        }
    }

    /// Starts an engine, unless the replica has one.
    async fn start(&self, replica: usize) {
        if self.running.lock().unwrap()[replica].is_some() {
            return;
        }
        let start = {
            let mut starts = self.starts.lock().unwrap();
            starts[replica] += 1;
            starts[replica]
        };
        let link = self.world.connect(replica, start);
        let seed = derive(self.world.plan.seed, &[3, u64::try_from(replica).unwrap(), start]);
        let engine = Engine::builder()
            .clock(self.world.clock.clone())
            .random_seed(seed)
            .replica(link.name.clone())
            .store(Arc::clone(&link) as _)
            .concurrency(self.world.plan.concurrency)
            .register(workload::kind(&link))
            .start()
            .await
            .unwrap();
        link.record(Event::Started);
        self.running.lock().unwrap()[replica] = Some(Member { engine, link });
    }

    fn take(&self, replica: usize) -> Option<Member> {
        self.running.lock().unwrap()[replica].take()
    }

    async fn stop(&self, replica: usize) {
        let Some(Member { engine, link }) = self.take(replica) else { return };
        link.record(Event::Stopping);
        let before = link.faults();
        engine.stop().await;
        link.record(Event::Stopped { faults: link.faults() - before });
        link.kill();
    }

    fn kill(&self, replica: usize) {
        if let Some(Member { engine, link }) = self.take(replica) {
            link.record(Event::Killed);
            link.kill();
            // Ends its loops. What they still do cannot leave the process.
            drop(engine);
        }
    }

    pub(super) async fn stop_all(&self) {
        for replica in 0..self.world.plan.replicas {
            self.stop(replica).await;
        }
    }

    /// Ends and replaces engines as planned.
    pub(super) fn follow_plan(self: &Arc<Self>, tasks: &TaskTracker) {
        for departure in self.world.plan.departures.clone() {
            let cluster = Arc::clone(self);
            tasks.spawn(async move { cluster.replace(departure).await });
        }
    }

    async fn replace(&self, departure: Departure) {
        let Departure { replica, at, back_at, is_kill } = departure;
        let clock = &self.world.clock;
        clock.sleep_until(at).await;
        if is_kill {
            self.kill(replica);
        } else {
            self.stop(replica).await;
        }
        clock.sleep_until(self.world.plan.start_after(back_at.max(clock.now()))).await;
        self.start(replica).await;
    }

    /// Records engines that run and that the registry shows as dead.
    pub(super) async fn look_at_registry(&self, clock: &Clock, until: Timestamp) {
        while clock.now() < until {
            clock.sleep(LOOK_INTERVAL).await;
            let replicas = self.world.store.replicas().await.unwrap();
            for Member { link, .. } in self.running.lock().unwrap().iter().flatten() {
                let known = replicas.iter().find(|known| known.heartbeat.replica == link.name);
                if known.is_none_or(|known| !known.alive) {
                    link.record(Event::SeenDead);
                }
            }
        }
    }
}
