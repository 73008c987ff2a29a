//! TLS with a database.

use super::config::Config;
use super::error::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use std::sync::{Arc, LazyLock};

/// Takes every certificate, as `libpq` does by `sslmode=require` alone: others cannot listen, but who it is that we speak
/// with is not known.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

static ANYBODY: LazyLock<Result<Arc<ClientConfig>, rustls::Error>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    Ok(Arc::new(config.with_no_client_auth()))
});

/// A session with the server of `config` that has said nothing yet.
pub(super) fn session(config: &Config) -> Result<ClientConnection, Error> {
    let failed = |error: &dyn std::error::Error| Error::Tls(error.to_string());
    let name = ServerName::try_from(config.host.clone()).map_err(|error| failed(&error))?;
    let chosen = match &config.tls {
        Some(chosen) => Arc::clone(chosen),
        None => Arc::clone(ANYBODY.as_ref().map_err(|error| failed(error))?),
    };
    ClientConnection::new(chosen, name).map_err(|error| failed(&error))
}
