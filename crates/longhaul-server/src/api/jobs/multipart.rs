//! A submission in parts: the job first, then its payload.

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use futures_util::{Stream, StreamExt, stream};
use longhaul_client::wire::SubmitRequest;
use multer::{Field, Multipart};

use super::upload::Announced;
use crate::api::body;
use crate::api::overload::aside;
use crate::problem::{Code, Problem};

/// The part that describes the job.
const JOB: &str = "job";
/// What the part with the payload may be called.
const PAYLOAD: [&str; 2] = ["payload", "file"];

/// A body that comes in parts.
pub(super) struct Parts(Multipart<'static>);

/// The payload's part.
pub(super) struct PayloadPart {
    pub(super) announced: Announced,
    pub(super) name: Option<String>,
    field: Field<'static>,
    rest: Multipart<'static>,
}

/// Whether the body comes in parts.
pub(super) fn is_multipart(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.is_some_and(|given| {
        given.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
    })
}

impl Parts {
    pub(super) fn of(headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = multer::parse_boundary(given.unwrap_or_default())
            .map_err(|_| Problem::new(Code::BadRequest, "multipart/form-data needs a boundary"))?;
        Ok(Self(Multipart::new(body.into_data_stream(), boundary)))
    }

    /// Reads the first part, which must be the job.
    pub(super) async fn job(&mut self, bytes_max: usize) -> Result<SubmitRequest, Problem> {
        let first = aside(self.0.next_field()).await.map_err(|error| broken(&error))?;
        let Some(mut field) = first.filter(|field| field.name() == Some(JOB)) else {
            let detail = "the first part must be `job`, with the submission as JSON";
            return Err(Problem::new(Code::BadRequest, detail));
        };
        let mut text = Vec::new();
        while let Some(piece) = aside(field.chunk()).await.map_err(|error| broken(&error))? {
            if text.len() + piece.len() > bytes_max {
                let detail = format!("the part `job` has more than {bytes_max} bytes");
                return Err(Problem::new(Code::PayloadTooLarge, detail));
            }
            text.extend_from_slice(&piece);
        }
        let text = String::from_utf8(text)
            .map_err(|_| Problem::new(Code::InvalidJson, "the part `job` is not UTF-8"))?;
        body::refuse_deep(&text)?;
        body::object(&text)
    }

    /// The second part, if there is one.
    pub(super) async fn payload(
        mut self,
        whole: &Announced,
    ) -> Result<Option<PayloadPart>, Problem> {
        let Some(field) = aside(self.0.next_field()).await.map_err(|error| broken(&error))? else {
            return Ok(None);
        };
        if !field.name().is_some_and(|name| PAYLOAD.contains(&name)) {
            let detail =
                "after the part `job` there may be one part `payload` or `file`, and nothing else";
            return Err(Problem::new(Code::BadRequest, detail));
        }
        let content_type = field.content_type().map(ToString::to_string);
        // The body's own length and digest are those of all parts together.
        let announced = Announced { bytes: None, digest: None, waits: whole.waits, content_type };
        let name = field.file_name().map(str::to_owned);
        Ok(Some(PayloadPart { announced, name, field, rest: self.0 }))
    }
}

impl PayloadPart {
    /// Its bytes as they come in; an error at the end if it is not the last part.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Bytes, Problem>> {
        let Self { field, rest, .. } = self;
        let pieces = field.map(|piece| piece.map_err(|error| broken(&error)));
        pieces.chain(stream::once(end(rest)).filter_map(async |ended| ended.err().map(Err)))
    }
}

async fn end(mut rest: Multipart<'static>) -> Result<(), Problem> {
    let next = rest.next_field().await.map_err(|error| broken(&error))?;
    if next.is_none() {
        return Ok(());
    }
    Err(Problem::new(Code::BadRequest, "there are parts after the payload"))
}

fn broken(error: &multer::Error) -> Problem {
    Problem::new(
        Code::BadRequest,
        format!("the body is not as multipart/form-data should be: {error}"),
    )
}
