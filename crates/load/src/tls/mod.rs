//! Whom to trust, who we say we are, and what a failed handshake means.

mod anyone;
mod explain;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::{ClientConfig, ResolvesClientCert, WantsClientCert};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, RootCertStore, SignatureScheme};

pub(crate) use explain::{certificate_required, explain};

use crate::driver::quic;
use crate::{LoadError, Target};

/// How TLS is spoken to a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Whom a server's certificate must come from.
    pub roots: Roots,
    /// The certificate that a server may ask us for.
    pub identity: Option<Identity>,
}

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Roots {
    /// Those of the authorities that the machine trusts.
    #[default]
    System,
    /// Those of the authorities in a PEM file, and no others.
    File(PathBuf),
    /// Anyone's: the server may be somebody else.
    Anyone,
}

/// A certificate of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// PEM file of the certificate and those that lead to its authority.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

/// What every connection to one server is begun with. Its clones share the sessions that can be resumed.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    /// The protocol that is spoken, by its ALPN name.
    pub(crate) protocol: &'static str,
    /// Where it is spoken below HTTP/3.
    pub(crate) quic: Option<quic::Client>,
    /// Whether the server has asked for a certificate of ours, where we have none.
    pub(crate) asked: Arc<Asked>,
}

/// Whether a server has asked for a certificate of ours; it is given none.
#[derive(Debug, Default)]
pub(crate) struct Asked(AtomicBool);

impl Asked {
    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for Asked {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

impl Tls {
    /// Reads the files. `protocol` is offered to the server by its ALPN name.
    ///
    /// # Errors
    /// [`LoadError::Certificates`], or [`LoadError::Url`] where the host cannot be in a certificate.
    pub(crate) fn client(&self, target: &Target, protocol: &'static str) -> Result<Client, LoadError> {
        let name = ServerName::try_from(target.host().to_owned()).map_err(|_| LoadError::Url {
            url: target.url.clone(),
            why: "its host is not a name that a certificate can hold",
        })?;
        let mut config = self.identify(self.trust()?)?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let asked = Arc::new(Asked::default());
        if self.identity.is_none() {
            config.client_auth_cert_resolver = Arc::<Asked>::clone(&asked);
        }
        Ok(Client { config: Arc::new(config), name, protocol, quic: None, asked })
    }

    /// The same for HTTP/3 with so many streams on each connection.
    ///
    /// # Errors
    /// Those of [`Tls::client`].
    pub(crate) fn quic_client(
        &self,
        target: &Target,
        protocol: &'static str,
        streams: u32,
    ) -> Result<Client, LoadError> {
        let client = self.client(target, protocol)?;
        let quic = quic::Client::new(&client.config, target.host(), streams)
            .map_err(|why| LoadError::Quic { why })?;
        Ok(Client { quic: Some(quic), ..client })
    }

    fn trust(&self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, LoadError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has what TLS 1.2 and 1.3 need");
        Ok(match &self.roots {
            Roots::System => builder.with_root_certificates(system_roots()?),
            Roots::File(path) => builder.with_root_certificates(roots_of(path)?),
            Roots::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(anyone::Anyone(provider)))
            }
        })
    }

    fn identify(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, LoadError> {
        let Some(Identity { certificate, key }) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(certificate)?;
        let private =
            PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, "private key", &error))?;
        builder.with_client_auth_cert(chain, private).map_err(|error| LoadError::Certificates {
            path: key.clone(),
            why: format!("it does not go with {}: {error}", certificate.display()),
        })
    }
}

/// The authorities that the machine trusts.
fn system_roots() -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // A store may hold old certificates that are no longer understood; the others count.
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let cause = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
    Err(LoadError::Certificates {
        path: PathBuf::from("the machine's store of certificates"),
        why: format!("it is empty{cause}: install ca-certificates, or use --cacert FILE or --insecure"),
    })
}

fn roots_of(path: &Path) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let wrong = |error: rustls::Error| LoadError::Certificates {
            path: path.to_owned(),
            why: format!("one of its certificates is not an authority's: {error}"),
        };
        roots.add(certificate).map_err(wrong)?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let wrong = |error: pem::Error| unusable(path, "certificate", &error);
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(unusable(path, "certificate", &pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn unusable(path: &Path, what: &str, error: &pem::Error) -> LoadError {
    let why = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("it holds no {what} in PEM form"),
        other => format!("it is not PEM: {other}"),
    };
    LoadError::Certificates { path: path.to_owned(), why }
}
