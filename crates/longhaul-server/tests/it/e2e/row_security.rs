//! Row-level security with a database user that may not create roles.

use crate::harness::TestDatabase;
use crate::harness::{CommandOutput, Installation, LONGHAUL, TestProcess, output_of};

struct RestrictedDatabase {
    database: TestDatabase,
    install: Installation,
    user: String,
}

impl RestrictedDatabase {
    /// Creates a database whose owner may not create roles.
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        let user = format!("plain_{:016x}", rand::random::<u64>());
        let url = database.url();
        let (_, name) = url.rsplit_once('/').unwrap();
        database.administer(&format!("CREATE ROLE {user} LOGIN")).await;
        database.administer(&format!("ALTER DATABASE {name} OWNER TO {user}")).await;
        Self { database, install: Installation::new(), user }
    }

    fn url(&self) -> String {
        self.database.url().replace("longhaul@", &format!("{}@", self.user))
    }

    /// Returns the log of a server from start to stop.
    async fn log(&self) -> String {
        let mut serve = self.install.serve();
        serve.env("LONGHAUL_DATABASE", self.url());
        let server = self.install.wait_ready(TestProcess::spawn(serve)).await;
        server.sigterm().await.stderr
    }

    async fn doctor(&self) -> CommandOutput {
        let mut doctor = self.install.command(LONGHAUL);
        doctor.args(["doctor", "--listen", "127.0.0.1:0"]).env("LONGHAUL_DATABASE", self.url());
        output_of(doctor).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_row_security_role_is_reported_by_log_and_doctor() {
    let restricted = RestrictedDatabase::new().await;
    // The role belongs to the whole cluster, so another test may create it at the same time.
    let make = "DO $$ BEGIN CREATE ROLE longhaul_tenant NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$";
    restricted.database.administer(make).await;
    let grant = format!("GRANT longhaul_tenant TO {}", restricted.user);

    let log = restricted.log().await;
    let warnings = log.lines().filter(|line| line.contains("WARN") && line.contains(&grant));
    assert_eq!(warnings.count(), 1, "{log}");
    let doctor = restricted.doctor().await;
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.out.contains("! tenants: ") && doctor.out.contains(&grant), "{doctor:?}");

    restricted.database.administer(&grant).await;
    let log = restricted.log().await;
    assert!(!log.contains("longhaul_tenant"), "{log}");
    let doctor = restricted.doctor().await;
    assert!(doctor.out.contains("✓ tenants: row-level security"), "{doctor:?}");
}
