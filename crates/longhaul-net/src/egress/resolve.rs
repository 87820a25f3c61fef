//! From names to addresses that may be dialled.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve};
use tokio::sync::Semaphore;

use super::policy::{DenyReason, Policy, Reach};

/// Lookups at once. The system's resolver holds a thread for each, for many seconds if a name's servers do
/// not answer, and others need threads too.
const LOOKUPS_MAX: usize = 64;

/// What a [`Resolver`] returns.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of a name.
pub trait Resolver: Send + Sync {
    /// All of them, in the order in which they should be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// As the machine resolves names, `/etc/hosts` included.
#[derive(Debug)]
pub struct SystemResolver {
    room: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let (room, name) = (Arc::clone(&self.room), name.to_owned());
        Box::pin(async move {
            let permit = room.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                // Not before: whoever asked may have stopped waiting, and the thread has not.
                drop(permit);
                Ok(found?.map(|found| found.ip()).collect())
            };
            tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)?
        })
    }
}

/// Why a name is not dialled.
#[derive(Debug)]
pub(super) enum ResolveError {
    /// One of its addresses may not be.
    Denied(DenyReason),
    /// It has none, or nobody could say.
    Unresolved(io::Error),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(_) => f.write_str("it leads where this server may not go"),
            Self::Unresolved(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Between the HTTP client and the network: what it returns has been judged, and is what is dialled. There
/// is no second lookup that could say something else.
pub(super) struct PolicyResolver {
    pub(super) policy: Policy,
    pub(super) resolver: Arc<dyn Resolver>,
    /// The client asks by name alone, so there is one of it for each reach.
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
