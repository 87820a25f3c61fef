//! Route registration. Every route declares its load-shedding class and the permission it requires.
//!
//! Both are arguments of the registration, so that a new route cannot be added without them.

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_request_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, Route as RouteService};
use tower::{Layer, Service};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::caller::{Permission, require};
use super::load_shedding::{Class, shed};
use super::shared_service::{Share, SharedService};
use crate::api::AppState;
use crate::auth::Auth;

/// Routes with their load-shedding classes and permissions.
#[derive(Default)]
pub(crate) struct Routes(Vec<Route>);

struct Route {
    class: Class,
    #[cfg_attr(not(test), expect(dead_code, reason = "only the snapshot of the routes reads it"))]
    permission: Option<&'static str>,
    require: fn(MethodRouter<AppState>, &Auth) -> MethodRouter<AppState>,
    methods: Methods,
}

enum Methods {
    /// Part of the `OpenAPI` document, which also has the path.
    Documented(UtoipaMethodRouter<AppState>),
    Undocumented(String, MethodRouter<AppState>),
}

fn require_on_routes<P: Permission>(
    methods: MethodRouter<AppState>,
    auth: &Auth,
) -> MethodRouter<AppState> {
    methods.route_layer(map_request_with_state(auth.clone(), require::<P>))
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a route of the documented API.
    pub(crate) fn route<P: Permission>(
        self,
        class: Class,
        route: UtoipaMethodRouter<AppState>,
    ) -> Self {
        self.add(class, Some(P::NAME), require_on_routes::<P>, Methods::Documented(route))
    }

    /// Adds a route of the documented API that needs no authentication.
    pub(crate) fn public(self, class: Class, route: UtoipaMethodRouter<AppState>) -> Self {
        self.add(class, None, |methods, _| methods, Methods::Documented(route))
    }

    /// Adds a route outside of the documented API.
    pub(crate) fn undocumented<P: Permission>(
        self,
        class: Class,
        path: &str,
        methods: MethodRouter<AppState>,
    ) -> Self {
        let methods = Methods::Undocumented(path.to_owned(), methods);
        self.add(class, Some(P::NAME), require_on_routes::<P>, methods)
    }

    /// Adds a route outside of the documented API that takes every method.
    pub(crate) fn any_method<P: Permission>(
        self,
        class: Class,
        path: &str,
        methods: MethodRouter<AppState>,
    ) -> Self {
        // axum treats such a handler as a fallback, which `route_layer` leaves out.
        let require = |methods: MethodRouter<AppState>, auth: &Auth| {
            methods.layer(map_request_with_state(auth.clone(), require::<P>))
        };
        self.add(class, Some(P::NAME), require, Methods::Undocumented(path.to_owned(), methods))
    }

    /// Adds a route outside of the documented API that needs no authentication.
    #[cfg(feature = "render")]
    pub(crate) fn undocumented_public(
        self,
        class: Class,
        path: &str,
        methods: MethodRouter<AppState>,
    ) -> Self {
        let methods = Methods::Undocumented(path.to_owned(), methods);
        self.add(class, None, |methods, _| methods, methods)
    }

    fn add(
        mut self,
        class: Class,
        permission: Option<&'static str>,
        require: fn(MethodRouter<AppState>, &Auth) -> MethodRouter<AppState>,
        methods: Methods,
    ) -> Self {
        self.0.push(Route { class, permission, require, methods });
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds the documented routes to an `OpenAPI` document.
    pub(crate) fn into_document(self, document: OpenApi) -> OpenApi {
        let router = OpenApiRouter::<AppState>::with_openapi(document);
        let documented = self.0.into_iter().filter_map(|route| match route.methods {
            Methods::Documented(route) => Some(route),
            Methods::Undocumented(..) => None,
        });
        documented.fold(router, OpenApiRouter::routes).into_openapi()
    }

    /// Builds the router. A request passes load shedding, then `layer`, then the permission check.
    pub(crate) fn into_router<L>(self, state: &AppState, layer: L) -> Router<AppState>
    where
        L: Layer<SharedService<RouteService>> + Clone + Send + Sync + 'static,
        L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse,
        <L::Service as Service<Request>>::Future: Send,
    {
        let router = self.0.into_iter().fold(OpenApiRouter::new(), |router, route| {
            let Route { class, require, methods, .. } = route;
            let guarded = |methods| {
                let shed = from_fn_with_state((state.load_shedder.clone(), class), shed);
                require(methods, &state.auth).layer((Share, shed, Share, layer.clone(), Share))
            };
            match methods {
                Methods::Documented((schemas, paths, methods)) => {
                    router.routes((schemas, paths, guarded(methods)))
                }
                Methods::Undocumented(path, methods) => router.route(&path, guarded(methods)),
            }
        });
        router.into()
    }

    /// Returns one line per route: path, class and permission.
    #[cfg(test)]
    pub(crate) fn table(&self) -> String {
        let lines = self.0.iter().map(|route| {
            let path = match &route.methods {
                Methods::Documented((_, paths, _)) => paths
                    .paths
                    .iter()
                    .map(|(path, item)| {
                        let methods = [
                            ("GET", &item.get),
                            ("PUT", &item.put),
                            ("POST", &item.post),
                            ("PATCH", &item.patch),
                            ("DELETE", &item.delete),
                        ];
                        let methods = methods.into_iter().filter(|(_, method)| method.is_some());
                        let methods: Vec<&str> = methods.map(|(name, _)| name).collect();
                        format!("{} {path}", methods.join(","))
                    })
                    .collect::<Vec<_>>()
                    .join(" "),
                Methods::Undocumented(path, _) => path.clone(),
            };
            format!("{path}: {:?}, {}", route.class, route.permission.unwrap_or("public"))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
