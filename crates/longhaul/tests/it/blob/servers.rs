//! Local servers: moto for S3, Azurite for Azure Blob Storage.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use longhaul::blob::{Blobs, CloudOptions};
use ring::hmac;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Maximum number of checks before a server counts as failed: half a minute.
const LOOKS_MAX: usize = 300;
/// Azurite's account; its key is the same on every installation.
const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Environment variable with the account's key.
pub(crate) const ACCOUNT_KEY_VARIABLE: &str = "AZURE_STORAGE_ACCOUNT_KEY";

/// A server for one test. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Server {
    /// Starts an S3 server with the bucket `bucket`.
    pub(crate) async fn s3() -> Self {
        let server = Self::start(".tools/venv/bin/moto_server", |command, port| {
            command.args(["-H", "127.0.0.1", "-p", port]);
        });
        let server = server.await;
        server.request("PUT", "/bucket", &[], "").await;
        server
    }

    /// Starts an Azure server with the container `box`.
    pub(crate) async fn azure() -> Self {
        let azurite = ".tools/node/node_modules/.bin/azurite-blob";
        let server = Self::start(azurite, |command, port| {
            command.args(["--blobHost", "127.0.0.1", "--blobPort", port]);
            command.args(["--skipApiVersionCheck", "--disableTelemetry"]);
        });
        let server = server.await;
        server.make_container().await;
        server
    }

    /// Returns the directory with its data.
    #[allow(dead_code, reason = "only the server's tests look there")]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    async fn start(tool: &str, arguments: impl FnOnce(&mut Command, &str)) -> Self {
        let program = installed(tool);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        arguments(&mut command, &port.to_string());
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().unwrap(), port, folder };
        until(tool, async || TcpStream::connect(("127.0.0.1", port)).await.is_ok()).await;
        server
    }

    /// Opens its bucket with a prefix.
    pub(crate) fn open_s3(&self, bucket: &str, secret: &str) -> Blobs {
        let address = format!(
            "s3://{bucket}/some/where?endpoint=http://127.0.0.1:{}&region=eu-west-1&allow_http=true",
            self.port
        );
        Blobs::open_with(&address, &s3_options(secret)).unwrap()
    }

    /// Opens its container.
    pub(crate) fn open_azure(&self, container: &str, key: Option<&str>) -> Blobs {
        let key = key.unwrap_or(ACCOUNT_KEY).to_owned();
        let variables = Some([(ACCOUNT_KEY_VARIABLE.to_owned(), key)].into());
        let options = CloudOptions { variables, ..Default::default() };
        Blobs::open_with(&self.azure_address(container), &options).unwrap()
    }

    /// Returns the address of a container, or of a prefix in one.
    pub(crate) fn azure_address(&self, container: &str) -> String {
        format!(
            "az://{container}?account={ACCOUNT}&endpoint=http://127.0.0.1:{}/{ACCOUNT}\
             &allow_http=true",
            self.port
        )
    }

    /// Sends a request that a blob store never sends.
    pub(crate) async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let (host, length) = (format!("127.0.0.1:{}", self.port), body.len().to_string());
        let always = [("Host", &*host), ("Content-Length", &*length), ("Connection", "close")];
        let headers =
            always.iter().chain(headers).map(|(name, value)| format!("{name}: {value}\r\n"));
        let text =
            format!("{method} {target} HTTP/1.1\r\n{}\r\n{body}", headers.collect::<String>());
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 2"), "{method} {target}: {answer}");
        answer
    }

    async fn make_container(&self) {
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let (dated, versioned) = (("x-ms-date", &*date), ("x-ms-version", "2021-08-06"));
        // Method, eleven absent headers, the present ones, and the resource.
        let signed = format!(
            "PUT{}x-ms-date:{date}\nx-ms-version:2021-08-06\n\
             /{ACCOUNT}/{ACCOUNT}/box\nrestype:container",
            "\n".repeat(12)
        );
        let key = hmac::Key::new(hmac::HMAC_SHA256, &BASE64_STANDARD.decode(ACCOUNT_KEY).unwrap());
        let signature = BASE64_STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
        let authorization = format!("SharedKey {ACCOUNT}:{signature}");
        let headers = [dated, versioned, ("Authorization", &*authorization)];
        let target = format!("/{ACCOUNT}/box?restype=container");
        self.request("PUT", &target, &headers, "").await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Returns credentials as environment variables.
pub(crate) fn s3_options(secret: &str) -> CloudOptions {
    let variables = [("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", secret)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    CloudOptions { variables: Some(variables.into()), ..Default::default() }
}

fn installed(tool: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(tool);
    assert!(program.exists(), "there is no {tool}: run scripts/setup-test, which installs it");
    program
}

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so().await {
            return;
        }
        // tidy: allow(sleep) another process changes the condition without a signal
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("waited for {what} in vain");
}
