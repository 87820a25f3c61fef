//! Multipart submissions: the job first, then its payload.

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use futures_util::{Stream, StreamExt, stream};
use longhaul_client::wire::SubmitRequest;
use multer::{Field, Multipart};

use crate::api::http::body;
use crate::api::http::load_shedding::without_permit;
use crate::jobs::upload::PayloadHeaders;
use crate::problem::{Code, Problem, Result};

/// Name of the part with the submission.
const JOB: &str = "job";
/// Names of the part with the payload.
const PAYLOAD: [&str; 2] = ["payload", "file"];

/// A multipart body.
pub(crate) struct MultipartBody(Multipart<'static>);

pub(crate) struct PayloadPart {
    pub(crate) headers: PayloadHeaders,
    pub(crate) name: Option<String>,
    field: Field<'static>,
    rest: Multipart<'static>,
}

pub(crate) fn is_multipart(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.is_some_and(|given| {
        given.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
    })
}

impl MultipartBody {
    pub(crate) fn of(headers: &HeaderMap, body: Body) -> Result<Self> {
        let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = multer::parse_boundary(given.unwrap_or_default())
            .map_err(|_| Problem::new(Code::BadRequest, "multipart/form-data needs a boundary"))?;
        Ok(Self(Multipart::new(body.into_data_stream(), boundary)))
    }

    async fn next(&mut self) -> Result<Option<Field<'static>>> {
        without_permit(self.0.next_field()).await.map_err(|error| broken(&error))
    }

    /// Parses the first part, which must be the job.
    pub(crate) async fn job(&mut self, bytes_max: usize) -> Result<SubmitRequest> {
        let first = self.next().await?;
        let Some(mut field) = first.filter(|field| field.name() == Some(JOB)) else {
            let detail = "the first part must be `job`, with the submission as JSON";
            return Err(Problem::new(Code::BadRequest, detail));
        };
        let text = text(&mut field, JOB, bytes_max).await?;
        body::reject_deep(&text)?;
        body::object(&text)
    }

    /// Reads the fields of an HTML form, of at most `bytes_max` together, up to an optional file.
    pub(crate) async fn form(
        mut self,
        bytes_max: usize,
    ) -> Result<(Vec<(String, String)>, Option<PayloadPart>)> {
        let (mut fields, mut left) = (Vec::new(), bytes_max);
        while let Some(mut field) = self.next().await? {
            let name = field.name().unwrap_or_default().to_owned();
            if let Some(file) = field.file_name() {
                // Browsers send an empty name if no file was chosen.
                let part = (!file.is_empty()).then(|| PayloadPart::new(field, self.0, false));
                return Ok((fields, part));
            }
            let value = text(&mut field, &name, left).await?;
            left = left.saturating_sub(name.len() + value.len());
            fields.push((name, value));
        }
        Ok((fields, None))
    }

    /// Returns the second part, if there is one.
    pub(crate) async fn payload(mut self, whole: &PayloadHeaders) -> Result<Option<PayloadPart>> {
        let Some(field) = self.next().await? else { return Ok(None) };
        if !field.name().is_some_and(|name| PAYLOAD.contains(&name)) {
            let detail = "the part `job` may be followed by one part `payload` or `file` only";
            return Err(Problem::new(Code::BadRequest, detail));
        }
        Ok(Some(PayloadPart::new(field, self.0, whole.expects_continue)))
    }
}

impl PayloadPart {
    fn new(field: Field<'static>, rest: Multipart<'static>, expects_continue: bool) -> Self {
        let content_type = field.content_type().map(ToString::to_string);
        // The length and digest in the request's headers are those of the whole body.
        let headers = PayloadHeaders { bytes: None, digest: None, expects_continue, content_type };
        Self { headers, name: field.file_name().map(str::to_owned), field, rest }
    }

    /// Streams the payload. Ends with an error if further parts follow.
    pub(crate) fn chunks(self) -> impl Stream<Item = Result<Bytes>> {
        let Self { field, rest, .. } = self;
        let chunks = field.map(|chunk| chunk.map_err(|error| broken(&error)));
        chunks.chain(stream::once(end(rest)).filter_map(async |ended| ended.err().map(Err)))
    }
}

async fn text(field: &mut Field<'static>, name: &str, bytes_max: usize) -> Result<String> {
    let mut text = Vec::new();
    while let Some(chunk) = without_permit(field.chunk()).await.map_err(|error| broken(&error))? {
        if text.len() + chunk.len() > bytes_max {
            let detail = format!("the part `{name}` has more than {bytes_max} bytes");
            return Err(Problem::new(Code::PayloadTooLarge, detail));
        }
        text.extend_from_slice(&chunk);
    }
    let not_text = |_| Problem::new(Code::InvalidJson, format!("the part `{name}` is not UTF-8"));
    String::from_utf8(text).map_err(not_text)
}

async fn end(mut rest: Multipart<'static>) -> Result<()> {
    let next = rest.next_field().await.map_err(|error| broken(&error))?;
    if next.is_none() {
        return Ok(());
    }
    Err(Problem::new(Code::BadRequest, "the payload must be the last part"))
}

fn broken(error: &multer::Error) -> Problem {
    Problem::new(Code::BadRequest, format!("invalid multipart/form-data: {error}"))
}
