//! What a caller sees of a submission that was not accepted.

use longhaul::SubmitError;

use super::{Code, Problem};

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let code = match error {
            SubmitError::Store(error) => return error.into(),
            SubmitError::UnknownKind { .. } => Code::UnknownKind,
            SubmitError::Input(_) => Code::InvalidJson,
            SubmitError::Limit(ref over) if over.name == "input_bytes_max" => Code::PayloadTooLarge,
            SubmitError::Limit(_) | SubmitError::Name(_) | SubmitError::Invalid(_) => {
                Code::Validation
            }
        };
        Self::new(code, error.to_string())
    }
}
