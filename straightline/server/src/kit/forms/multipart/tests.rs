use super::{Head, PARTS_MAX, Parser, boundary};
use std::io::{self, BufReader, Read};

type Parts = Vec<(String, Option<String>, Vec<u8>)>;

/// All parts of a body that comes by `size` bytes.
fn parts(body: &[u8], size: usize) -> io::Result<Parts> {
    let mut parser = Parser::new(BufReader::with_capacity(size, body), "B");
    let mut parts = Vec::new();
    while let Some(head) = parser.next()? {
        let mut value = Vec::new();
        parser.read_to_end(&mut value)?;
        parts.push((head.name, head.file_name, value));
    }
    Ok(parts)
}

fn part(name: &str, value: &str) -> String {
    format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

#[test]
fn parts_come_in_order_however_the_body_is_cut() {
    let tricky = "\r\n--A\r\n--\r\n--B";
    let tricky = &tricky[..tricky.len() - 1];
    let body =
        part("a", "one") + &part("b", "") + &part("c", tricky) + &part("a", "\r\n") + "--B--\r\nepilogue";
    // Blanks that a gateway put behind boundaries.
    let body = body.replacen("--B\r\n", "--B \t \r\n", 2);
    for size in 1..body.len() {
        let found = parts(body.as_bytes(), size).unwrap();
        let found: Vec<_> =
            found.iter().map(|(n, _, v)| (n.as_str(), std::str::from_utf8(v).unwrap())).collect();
        assert_eq!(found, [("a", "one"), ("b", ""), ("c", tricky), ("a", "\r\n")], "{size}");
    }
    // What ends before its end is malformed, wherever that is.
    let end = body.find("--B--").unwrap() + 5;
    for cut in 0..end {
        assert!(parts(&body.as_bytes()[..cut], 7).is_err(), "{cut}");
    }
    assert_eq!(parts(b"--B--", 3).unwrap(), []);
}

#[test]
fn what_is_no_form_is_refused() {
    let named = "Content-Disposition: form-data; name=a\r\n\r\n";
    for body in [
        "",
        "preamble\r\n--B--",
        "--C--",
        "--Bx--",
        "--B\n",
        "--B --",
        "--B \n",
        "--B x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--B--",
        "--B\r\n\r\n\r\nno name\r\n--B--",
        "--B\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=\"a\" b\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n1\r\n--B--",
        "--B\r\nno colon\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=a\0\r\n\r\n1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=a\nx: y\r\n\r\n1\r\n--B--",
    ] {
        assert!(parts(body.as_bytes(), 4096).is_err(), "{body:?}");
    }
    let long = format!("--B\r\nX: {}\r\n{named}1\r\n--B--", "x".repeat(5000));
    assert!(parts(long.as_bytes(), 100).is_err());
    let many = format!("--B\r\n{named}1\r\n").repeat(PARTS_MAX);
    assert_eq!(parts(format!("{many}--B--").as_bytes(), 4096).unwrap().len(), PARTS_MAX);
    assert!(parts(format!("{many}--B\r\n{named}1\r\n--B--").as_bytes(), 4096).is_err());
}

#[test]
fn names_are_what_the_client_means() {
    for (text, name, file_name) in [
        ("form-data; name=\"a b\"", "a b", None),
        ("FORM-DATA; NAME=a; FileName=b.txt", "a", Some("b.txt")),
        (r#"form-data; name="a"; filename="C:\x\y;z.txt""#, "a", Some(r"C:\x\y;z.txt")),
        (r#"form-data; name="a\"b"; filename="""#, "a\"b", Some("")),
        (r#"form-data; name="a"; filename="../é""#, "a", Some("../é")),
        ("form-data; name=a; filename*=UTF-8''x", "a", None),
    ] {
        let head = Head::parse(format!("Content-Disposition: {text}").as_bytes()).unwrap();
        assert_eq!((head.name.as_str(), head.file_name.as_deref()), (name, file_name), "{text}");
    }
    for (text, wanted) in [
        ("multipart/form-data; boundary=abc", Some("abc")),
        ("multipart/form-data; charset=x; Boundary=\"a b:c\"", Some("a b:c")),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ("multipart/form-data; boundary=\"a\r\"", None),
        ("multipart/form-data; boundary=\"a \"", None),
        ("multipart/form-data; boundary=a\"b", None),
    ] {
        assert_eq!(boundary(text).ok(), wanted, "{text}");
    }
    assert!(boundary(&format!("x; boundary={}", "a".repeat(71))).is_err());
}

/// Bodies with a few bytes changed: whatever comes is parts or an error, and the same however it is cut.
#[test]
fn garbage_is_the_same_however_it_is_cut() {
    let good = (part("a", "one") + &part("b", "--B\r\n--") + "--B--").into_bytes();
    let (mut seed, mut refused) = (3_u64, 0);
    for round in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=round % 4 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bytes.len().max(1);
            match seed >> 20 & 3 {
                0 => bytes[at] ^= 1 << (seed >> 24 & 7),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"\r\n-B\";"[(seed >> 24) as usize % 6]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let (whole, cut) = (parts(&bytes, 4096).ok(), parts(&bytes, 1 + round % 11).ok());
        assert_eq!(whole, cut, "{round}: {:?}", String::from_utf8_lossy(&bytes));
        refused += usize::from(whole.is_none());
    }
    assert!(refused > 1000 && refused < 20_000, "{refused}");
}
