//! Where requests go.

use hyper::Uri;
use std::fmt;

/// An endpoint's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What stands before `/v1/...` in every path; empty or with a leading slash and none at its end.
    pub base: String,
}

impl Target {
    /// Reads an address as `http://host:8000`; a `/v1` at its end is taken off.
    ///
    /// # Errors
    /// Found, expected and what to do, without the address: it may hold a secret.
    pub fn parse(text: &str) -> Result<Target, String> {
        let uri: Uri = text.trim().parse().map_err(|error| {
            format!("found no address ({error}); expected one as http://host:8000; check its spelling")
        })?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => {
                return Err(
                    "found no http:// or https:// in front; expected one as http://host:8000; add it"
                        .to_owned(),
                );
            }
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(
                "found a user or password in the address; expected none, since it would stand in outputs; \
                        give a token with --token-file or --token-env"
                    .to_owned(),
            );
        }
        if uri.query().is_some() {
            return Err("found a query behind the address; expected none; remove it".to_owned());
        }
        let host = uri.host().unwrap_or("").trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("found no host; expected an address as http://host:8000; name the host".to_owned());
        }
        let path = uri.path().trim_end_matches('/');
        let base = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
        Ok(Target { tls, host, port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }), base })
    }

    /// Host and port, as the Host header has them.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("http://localhost:8000", "http://localhost:8000"),
            ("http://localhost:8000/v1/", "http://localhost:8000"),
            ("https://example.org/engine/v1", "https://example.org:443/engine"),
            ("http://[::1]:80/", "http://[::1]:80"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        for text in [
            "localhost:8000",
            "ftp://x",
            "http://",
            "http://u:hush@host",
            "http://host?key=hush",
            "",
            "http://:80",
        ] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.contains("expected") && !error.contains("hush"), "{error}");
        }
    }
}
