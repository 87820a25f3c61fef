//! Cache keys: requests with the same key produce the same image.

use crate::RenderRequest;

/// Versions of everything that affects an image. Part of every cache key, because another renderer
/// draws another image. Change it with the version of a renderer, a font or the sanitizer.
pub const RENDERER_VERSION: &str = "merman 0.9.3, d2-little 0.7.1-1, resvg 0.47, dejavu 2.37, 3";

/// One pixel per unit of the diagram.
const DEFAULT_SCALE: f64 = 1.0;

impl RenderRequest {
    /// Removes options that state a default, so that requests with one cache key are equal.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        self.options.scale = self.options.scale.filter(|scale| *scale != DEFAULT_SCALE);
        self
    }

    /// Returns bytes that are equal for two requests if and only if they produce the same image.
    pub fn cache_key(&self) -> Vec<u8> {
        let Self { source, format, output_type, options } = self;
        let background = options.background.map(|background| background.to_string());
        let scale = options.scale.unwrap_or(DEFAULT_SCALE).to_string();
        let width = options.width.map(|width| width.to_string());
        let parts = [
            RENDERER_VERSION,
            format.as_str(),
            output_type.as_str(),
            options.theme.as_str(),
            background.as_deref().unwrap_or("theme"),
            &scale,
            width.as_deref().unwrap_or("natural"),
            source,
        ];
        let mut key = Vec::with_capacity(source.len() + 256);
        for part in parts {
            // The length keeps two different lists of parts from having the same concatenation.
            key.extend((part.len() as u64).to_be_bytes());
            key.extend(part.as_bytes());
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Background, Format, Options, OutputType, Theme};

    fn request() -> RenderRequest {
        RenderRequest {
            source: "flowchart LR\n  A --> B".to_owned(),
            format: Format::Mermaid,
            output_type: OutputType::Png,
            options: Options::default(),
        }
    }

    #[test]
    fn every_option_changes_the_cache_key() {
        let with = |options: Options| RenderRequest { options, ..request() };
        let defaults = Options::default();
        let colour = Some(Background::Colour([1, 2, 3]));
        let requests = [
            request(),
            RenderRequest { source: "flowchart LR\n  A --> C".to_owned(), ..request() },
            RenderRequest { format: Format::D2, ..request() },
            RenderRequest { output_type: OutputType::Svg, ..request() },
            with(Options { theme: Theme::Dark, ..defaults }),
            with(Options { background: Some(Background::Transparent), ..defaults }),
            with(Options { background: colour, ..defaults }),
            with(Options { scale: Some(2.0), ..defaults }),
            with(Options { width: Some(2), ..defaults }),
        ];
        let keys: HashSet<_> = requests.iter().map(RenderRequest::cache_key).collect();
        assert_eq!(keys.len(), requests.len());
        assert_eq!(request().cache_key(), request().cache_key());
    }

    #[test]
    fn explicit_scale_of_one_has_the_cache_key_of_the_default() {
        let options = Options { scale: Some(1.0), ..Options::default() };
        let scaled = RenderRequest { options, ..request() };
        assert_eq!(scaled.cache_key(), request().cache_key());
        assert_eq!(scaled.normalized(), request());
    }
}
