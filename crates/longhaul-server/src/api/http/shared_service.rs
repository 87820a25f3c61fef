//! A layer whose service is cheap to clone.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::util::Oneshot;
use tower::{Layer, Service, ServiceExt as _};

/// Shares the service below it instead of cloning it.
///
/// axum clones a route for each request, and each of its middlewares clones everything below it again. With this layer
/// between them each service is cloned once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share;

/// A service behind a reference; cloned only when it is called.
#[derive(Debug)]
pub(crate) struct SharedService<S>(Arc<S>);

impl<S> Layer<S> for Share {
    type Service = SharedService<S>;

    fn layer(&self, service: S) -> Self::Service {
        SharedService(Arc::new(service))
    }
}

impl<S> Clone for SharedService<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Service<R> + Clone, R> Service<R> for SharedService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = Oneshot<S, R>;

    /// The clone that is called waits until it is ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        S::clone(&self.0).oneshot(request)
    }
}
