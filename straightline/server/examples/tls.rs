//! The smallest server with TLS: `tls CERTIFICATES.pem KEY.pem [ADDRESS]`.

use std::time::Duration;
use straightline::rustls::pki_types::pem::PemObject;
use straightline::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use straightline::{Running, Server, rustls};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(certificates), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("tls CERTIFICATES.pem KEY.pem [ADDRESS]".into());
    };
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8443".into());
    let certificates = CertificateDer::pem_file_iter(certificates)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let server = Server::bind(address.as_str())?.on_signals(Duration::from_secs(5));
    start(server, certificates, key)?.join();
    Ok(())
}

/// Begins to serve over TLS 1.2 and 1.3.
pub(crate) fn start(
    server: Server,
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Running, Box<dyn std::error::Error>> {
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
    Ok(server.tls(config).spawn(|request, response| {
        let bytes = std::io::copy(request, &mut std::io::sink())?;
        response.send(format!("Hello, TLS! {bytes} bytes came.\n").as_bytes())
    })?)
}
