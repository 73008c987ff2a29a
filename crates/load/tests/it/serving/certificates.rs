//! An authority, and certificates that it gives out.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A certificate authority of one test, its files in a folder of its own.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate and its key.
pub(crate) struct Certified {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pem: String,
    key_pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let parent = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = parent.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { issuer, folder }
    }

    /// A certificate for `name` that is valid until `year` begins.
    pub(crate) fn certify(&self, name: &str, year: i32) -> Certified {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certified {
            chain: vec![certificate.der().clone()],
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    /// The authority's own certificate as a file.
    pub(crate) fn file(&self) -> PathBuf {
        self.write("authority.pem", &self.issuer.pem())
    }

    /// A certificate and its key as files.
    pub(crate) fn files(&self, certified: &Certified) -> (PathBuf, PathBuf) {
        (self.write("certificate.pem", &certified.pem), self.write("key.pem", &certified.key_pem))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A server with `certified`; `ask` has it ask for a certificate of this authority.
    pub(crate) fn server(
        &self,
        certified: &Certified,
        version: &'static SupportedProtocolVersion,
        ask: bool,
    ) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap();
        let builder = if ask {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let mut config =
            builder.with_single_cert(certified.chain.clone(), certified.key.clone_key()).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}
