//! What makes two pictures the same one.

use super::Request;

/// What draws, and how. Part of every identity, since another renderer makes another picture: to be changed with
/// the version of a renderer, a font, or what is done to a picture afterwards.
pub const RENDERER: &str = "merman 0.9.3, d2-little 0.7.1-1, resvg 0.47, dejavu 2.37, 2";

/// One pixel for each unit of the diagram.
const NATURAL_SCALE: f64 = 1.0;

impl Request {
    /// The same request without what it need not say, so that those of one identity are equal.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.options.scale = self.options.scale.filter(|scale| *scale != NATURAL_SCALE);
        self
    }

    /// Bytes that two requests share if and only if the same picture comes of them: to be digested, for a name
    /// that follows from what is in a picture.
    pub fn identity(&self) -> Vec<u8> {
        let Self { source, format, output_type, options } = self;
        let background = options.background.map(|background| background.to_string());
        let scale = options.scale.unwrap_or(NATURAL_SCALE).to_string();
        let width = options.width.map(|width| width.to_string());
        let parts = [
            RENDERER,
            format.as_str(),
            output_type.as_str(),
            options.theme.as_str(),
            background.as_deref().unwrap_or("theme"),
            &scale,
            width.as_deref().unwrap_or("natural"),
            source,
        ];
        let mut identity = Vec::with_capacity(source.len() + 256);
        for part in parts {
            // With its length, so that no letter can move from one part to the next.
            identity.extend((part.len() as u64).to_be_bytes());
            identity.extend(part.as_bytes());
        }
        identity
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::render::{Background, Format, Options, OutputType, Theme};

    fn request() -> Request {
        Request {
            source: "flowchart LR\n  A --> B".to_owned(),
            format: Format::Mermaid,
            output_type: OutputType::Png,
            options: Options::default(),
        }
    }

    #[test]
    fn whatever_changes_a_picture_changes_its_identity() {
        let with = |options: Options| Request { options, ..request() };
        let defaults = Options::default();
        let colour = Some(Background::Colour([1, 2, 3]));
        let requests = [
            request(),
            Request { source: "flowchart LR\n  A --> C".to_owned(), ..request() },
            Request { format: Format::D2, ..request() },
            Request { output_type: OutputType::Svg, ..request() },
            with(Options { theme: Theme::Dark, ..defaults }),
            with(Options { background: Some(Background::Transparent), ..defaults }),
            with(Options { background: colour, ..defaults }),
            with(Options { scale: Some(2.0), ..defaults }),
            with(Options { width: Some(2), ..defaults }),
        ];
        let identities: HashSet<_> = requests.iter().map(Request::identity).collect();
        assert_eq!(identities.len(), requests.len());
        assert_eq!(request().identity(), request().identity());
    }

    #[test]
    fn a_scale_of_one_is_no_scale() {
        let options = Options { scale: Some(1.0), ..Options::default() };
        let scaled = Request { options, ..request() };
        assert_eq!(scaled.identity(), request().identity());
        assert_eq!(scaled.settled(), request());
    }
}
