use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// What lets a certificate pass that does not verify.
const ANYWAY: &str = "--insecure goes on without checking who the server is";

/// Why TLS failed, and which flag would allow it.
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => alerted(*alert),
        Error::NoApplicationProtocol => {
            "the server speaks none of the protocols that were offered".to_owned()
        }
        Error::InvalidMessage(_) => {
            "what the server says is not TLS: does it speak http:// on this port?".to_owned()
        }
        Error::PeerIncompatible(why) => incompatible(why),
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    use CertificateError as E;
    match error {
        // A stranger who has the name of an authority that is trusted fails by the signature.
        E::UnknownIssuer | E::BadSignature => format!(
            "the server's certificate is signed by nobody who is trusted here; --cacert FILE names whom to trust, {ANYWAY}"
        ),
        E::Expired | E::ExpiredContext { .. } => {
            format!("the server's certificate has expired; {ANYWAY}")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            format!("the server's certificate is not valid yet (is the clock right?); {ANYWAY}")
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            format!(
                "the server's certificate is for another host ({error}): use its name in the URL; {ANYWAY}"
            )
        }
        // Of the verifier's own errors only the words are there.
        other if other.to_string().contains("CaUsedAsEndEntity") => format!(
            "the server's certificate is a CA certificate, as 'openssl req -x509' makes by default: make it with -addext basicConstraints=CA:FALSE; {ANYWAY}"
        ),
        other => format!("the server's certificate does not verify ({other}); {ANYWAY}"),
    }
}

fn alerted(alert: AlertDescription) -> String {
    use AlertDescription as A;
    match alert {
        A::CertificateRequired | A::NoCertificate => certificate_required(),
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => {
            format!(
                "the server does not accept our certificate, or wants one ({alert:?}): see --cert and --key"
            )
        }
        A::NoApplicationProtocol => "the server speaks none of the protocols that were offered".to_owned(),
        A::UnrecognisedName => "the server does not know the host of the URL".to_owned(),
        A::HandshakeFailure | A::ProtocolVersion | A::InsufficientSecurity => {
            format!("the server accepts none of the TLS versions and ciphers that are offered ({alert:?})")
        }
        other => format!("the server broke the handshake off ({other:?})"),
    }
}

/// The server wants a certificate and was given none.
pub(crate) fn certificate_required() -> String {
    "the server asks for a certificate of ours (certificate required): give one with --cert FILE --key FILE"
        .to_owned()
}

fn incompatible(why: &PeerIncompatible) -> String {
    format!("the server speaks no TLS that is safe to use ({why:?}): TLS 1.2 or 1.3 is needed")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn a_certificate_of_an_authority_is_told_from_one_of_a_server() {
        let found =
            OtherError(Arc::from(Box::<dyn std::error::Error + Send + Sync>::from("CaUsedAsEndEntity")));
        let text = certificate(&CertificateError::Other(found));
        assert!(text.contains("basicConstraints=CA:FALSE") && text.ends_with(ANYWAY), "{text}");
    }
}
