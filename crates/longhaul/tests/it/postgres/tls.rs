//! Encrypted connections and checks of server certificates.

use longhaul::Clock;
use longhaul::store::ReplicaStore as _;
use longhaul::store::postgres::{OpenError, PostgresStore};

use super::cluster::Cluster;
use super::database::connect;

/// Creates a certificate authority for the test.
fn authority(folder: &str, name: &str) {
    Cluster::program(&[
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        &format!("/CN={name}"),
        "-keyout",
        &format!("{folder}/{name}.key"),
        "-out",
        &format!("{folder}/{name}.crt"),
    ]);
}

/// Creates a certificate that is valid for `localhost` only, signed by that authority.
fn certificate(folder: &str, authority: &str) {
    let (key, request) = (format!("{folder}/server.key"), format!("{folder}/server.csr"));
    Cluster::program(&[
        "openssl",
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        &key,
        "-out",
        &request,
    ]);
    Cluster::program(&[
        "openssl",
        "x509",
        "-req",
        "-days",
        "2",
        "-in",
        &request,
        "-copy_extensions",
        "copy",
        "-CA",
        &format!("{folder}/{authority}.crt"),
        "-CAkey",
        &format!("{folder}/{authority}.key"),
        "-CAcreateserial",
        "-out",
        &format!("{folder}/server.crt"),
    ]);
}

async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    PostgresStore::open(url, Clock::system()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_certificate_is_verified_according_to_sslmode() {
    let mut cluster = Cluster::in_folder();
    let folder = cluster.folder().to_str().unwrap().to_owned();
    authority(&folder, "ours");
    authority(&folder, "another");
    certificate(&folder, "ours");
    cluster.start_again(&[
        "shared_buffers=32MB",
        "ssl=on",
        &format!("ssl_cert_file={folder}/server.crt"),
        &format!("ssl_key_file={folder}/server.key"),
    ]);
    let by_number = cluster.url().to_owned();
    let by_name = by_number.replace("127.0.0.1", "localhost");

    let store = open(&format!("{by_number}?sslmode=require")).await.unwrap();
    store.replicas().await.unwrap();
    let sql = "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl
        INNER JOIN pg_stat_activity USING (pid) WHERE application_name = 'longhaul'";
    let row = connect(&by_number).await.query_one(sql, &[]).await.unwrap();
    let (all, encrypted): (i64, i64) = (row.get(0), row.get(1));
    assert!(all > 0 && all == encrypted, "{encrypted} of {all} connections are encrypted");
    drop(store);

    let root = format!("sslmode=verify-full&sslrootcert={folder}/ours.crt");
    let store = open(&format!("{by_name}?{root}")).await.unwrap();
    store.replicas().await.unwrap();
    drop(store);

    let refused = [
        ("the name is another", format!("{by_number}?{root}")),
        (
            "the authority is another",
            format!("{by_name}?sslmode=verify-full&sslrootcert={folder}/another.crt"),
        ),
        ("nobody we know vouches for it", format!("{by_name}?sslmode=verify-full")),
    ];
    for (why, url) in refused {
        let Err(error) = open(&url).await else { panic!("opened although {why}") };
        assert!(matches!(error, OpenError::Connect(_) | OpenError::Tls(_)), "{why}: {error:?}");
    }
}
