//! TLS, for targets that speak it.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// How TLS is spoken.
pub type TlsConfig = ClientConfig;

/// A configuration that trusts the public authorities and those of `ca_pem`, certificates in PEM.
///
/// # Errors
/// What is wrong with `ca_pem`.
pub fn tls_config(ca_pem: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = ca_pem {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let added =
                certificate.map_err(|e| e.to_string()).and_then(|c| roots.add(c).map_err(|e| e.to_string()));
            added.map_err(|error| format!("found {error}; expected certificates in PEM; check the file"))?;
            found += 1;
        }
        if found == 0 {
            return Err("found no certificate; expected at least one in PEM; check the file".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_or_refused() {
        assert!(tls_config(None).is_ok());
        assert!(tls_config(Some(b"")).unwrap_err().contains("no certificate"));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(tls_config(Some(broken)).unwrap_err().contains("expected certificates in PEM"));
    }
}
