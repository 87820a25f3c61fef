//! DNS resolution within the egress policy.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve};
use tokio::sync::Semaphore;

use super::policy::{DenyReason, Policy, Reach};

/// Concurrent lookups. The system's resolver blocks a thread for each, for many seconds if a name server
/// does not respond.
const LOOKUPS_MAX: usize = 64;

/// Future of [`Resolver::resolve`].
pub(super) type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

pub(super) trait Resolver: Send + Sync {
    /// Returns all addresses of a name, in the order to try them.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Resolver of the operating system, including `/etc/hosts`.
#[derive(Debug)]
pub(super) struct SystemResolver {
    permits: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let (permits, name) = (Arc::clone(&self.permits), name.to_owned());
        Box::pin(async move {
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                // Released by the thread, because the caller may have stopped waiting for it.
                drop(permit);
                Ok(found?.map(|found| found.ip()).collect())
            };
            tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)?
        })
    }
}

/// Reason why a name is not dialled.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("the address is not allowed")]
    Denied(DenyReason),
    #[error("{0}")]
    Unresolved(io::Error),
}

/// Resolver of the HTTP client: returns only permitted addresses, and exactly these are dialled. There is no
/// second lookup that could return others.
pub(super) struct PolicyResolver {
    pub(super) policy: Policy,
    pub(super) resolver: Arc<dyn Resolver>,
    /// Fixed per resolver, because the HTTP client passes the name without the port.
    pub(super) reach: Reach,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> reqwest::dns::Resolving {
        let (policy, resolver) = (self.policy.clone(), Arc::clone(&self.resolver));
        let reach = self.reach;
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await.map_err(ResolveError::Unresolved)?;
            if found.is_empty() {
                let error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                return Err(ResolveError::Unresolved(error).into());
            }
            if let Some(deny_reason) = policy.deny_reason_of_any(&found, reach) {
                return Err(ResolveError::Denied(deny_reason).into());
            }
            let addresses = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
