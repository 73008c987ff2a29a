//! How bodies are coded, and what clients take of that.

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `br`
    Brotli,
    /// `gzip`
    Gzip,
    /// Not at all.
    Identity,
}

impl Coding {
    /// Its name in `Content-Encoding`; `None` where that field is left out.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }
}

/// The best coding that a client takes, by the value of its `Accept-Encoding`.
///
/// Source: RFC 9110, section 12.5.3; among equals Brotli before gzip, and gzip before nothing.
#[cfg(feature = "compress")]
pub fn preferred(accept_encoding: Option<&str>) -> Coding {
    taken(accept_encoding).next().unwrap_or(Coding::Identity)
}

/// The codings that a client takes, the best first; none at all is always among them, for nothing better could be sent.
pub(super) fn taken(accept_encoding: Option<&str>) -> impl Iterator<Item = Coding> {
    let field = accept_encoding.unwrap_or_default();
    let weight = |names: &[&str]| {
        let of = |wanted: &str| {
            field.split(',').find_map(|item| {
                let mut parts = item.split(';').map(str::trim);
                parts.next().filter(|coding| coding.eq_ignore_ascii_case(wanted))?;
                Some(parts.find_map(weight_of).unwrap_or(1.0_f32))
            })
        };
        names.iter().find_map(|name| of(name)).or_else(|| of("*")).unwrap_or(0.0)
    };
    let mut codings = [
        (Coding::Brotli, weight(&["br"])),
        (Coding::Gzip, weight(&["gzip", "x-gzip"])),
        (Coding::Identity, weight(&["identity"])),
    ];
    // Equals stay in their order.
    codings.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let is_taken = |&(coding, weight): &(Coding, f32)| coding == Coding::Identity || weight > 0.0;
    codings.into_iter().filter(is_taken).map(|(coding, _)| coding)
}

/// The number of `q=0.5`.
fn weight_of(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    if name.eq_ignore_ascii_case("q") { value.parse().ok() } else { None }
}

#[cfg(all(test, feature = "compress"))]
mod tests {
    use super::{Coding, preferred};

    #[test]
    fn the_client_says_what_it_likes() {
        for (field, wanted) in [
            (None, Coding::Identity),
            (Some(""), Coding::Identity),
            (Some("gzip, deflate, br"), Coding::Brotli),
            (Some("gzip"), Coding::Gzip),
            (Some("GZIP;q=0.5, br;q=0.4"), Coding::Gzip),
            (Some("br;q=0, gzip;q=0"), Coding::Identity),
            (Some("br;q=0, *"), Coding::Gzip),
            (Some("*"), Coding::Brotli),
            (Some("brotli, gzipped"), Coding::Identity),
            (Some("identity"), Coding::Identity),
            (Some("identity;q=1, gzip;q=0.1"), Coding::Identity),
            (Some("identity;q=0.5, gzip;q=0.5"), Coding::Gzip),
            (Some("identity;q=0.5, gzip;q=0.1, br;q=0.6"), Coding::Brotli),
            (Some("gzip;q=0.1"), Coding::Gzip),
            (Some("x-gzip"), Coding::Gzip),
            (Some("br;q=0, gzip;q=0, *"), Coding::Identity),
            (Some("br;Q=0"), Coding::Identity),
            (Some("br;Q=0.2, gzip;q=0.3"), Coding::Gzip),
        ] {
            assert_eq!(preferred(field), wanted, "{field:?}");
        }
    }
}
