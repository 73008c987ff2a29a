//! The examples of RFC 7541, appendix C.

use http2::hpack::{Decoder, Encoder};

type Fields = Vec<(String, String)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Fields {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    decoder.decode(block, |name, value| fields.push((text(name), text(value)))).unwrap();
    fields
}

fn fields(of: &[(&str, &str)]) -> Fields {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const ANSWERS: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ],
];

#[test]
fn c_2_single_fields() {
    let cases = [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", ("custom-key", "custom-header")),
        ("040c2f73616d706c652f70617468", (":path", "/sample/path")),
        ("100870617373776f726406736563726574", ("password", "secret")),
        ("82", (":method", "GET")),
    ];
    for (hex, field) in cases {
        assert_eq!(decode(&mut Decoder::new(4096), &bytes(hex)), fields(&[field]));
    }
}

#[test]
fn c_3_and_c_4_requests() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let compressed = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for blocks in [plain, compressed] {
        let mut decoder = Decoder::new(4096);
        for (block, wanted) in blocks.iter().zip(REQUESTS) {
            assert_eq!(decode(&mut decoder, &bytes(block)), fields(wanted));
        }
    }
}

#[test]
fn c_5_and_c_6_answers_that_push_each_other_out() {
    let plain = [
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e17\
         68747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d41\
         53444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
    ];
    let compressed = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97\
         c8e9ae82ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd\
         5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ];
    for blocks in [plain, compressed] {
        let mut decoder = Decoder::new(256);
        for (block, wanted) in blocks.iter().zip(ANSWERS) {
            assert_eq!(decode(&mut decoder, &bytes(block)), fields(wanted));
        }
    }
}

/// Lines of answers as a server writes them, and what they stand for; of connections and of nothing for none.
const LINES: [(&str, Option<(&str, &str)>); 10] = [
    ("Server: some", Some(("server", "some"))),
    ("Server: other", Some(("server", "other"))),
    ("Content-Type: text/plain", Some(("content-type", "text/plain"))),
    ("X-Spaced:   a b  ", Some(("x-spaced", "a b"))),
    ("Content-Length: 13", Some(("content-length", "13"))),
    ("Content-Length: 1234567", Some(("content-length", "1234567"))),
    ("Accept-Encoding: gzip, deflate", Some(("accept-encoding", "gzip, deflate"))),
    ("Set-Cookie: a=b", Some(("set-cookie", "a=b"))),
    ("Connection: keep-alive", None),
    (": nameless", None),
];

#[test]
fn lines_at_the_same_places_or_at_others_read_back_whatever_the_table_holds() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let mut random = 7u32;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as usize % bound
    };
    let mut same = Vec::new();
    for round in 0..5_000 {
        if below(50) == 0 {
            encoder.grant([0, 40, 150, 4096][below(4)]);
        }
        // Most answers are like the one before; a line of each is of this answer alone.
        if round == 0 || below(4) == 0 {
            same = (0..below(20)).map(|_| LINES[below(LINES.len())]).collect();
        }
        let date = format!("{}", round / 7);
        let mut text: String = same.iter().map(|(line, _)| format!("{line}\r\n")).collect();
        text.push_str(&format!("Date: {date}\r\n"));
        let status = [*b"200", *b"404", *b"418"][below(3)];
        let mut wanted = vec![(":status", std::str::from_utf8(&status).unwrap())];
        wanted.extend(same.iter().filter_map(|(_, field)| *field));
        wanted.push(("date", &date));
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.status(&mut block, status);
        encoder.lines(&mut block, text.as_bytes());
        assert_eq!(decode(&mut decoder, &block), fields(&wanted), "{round}: {text:?}");
    }
    // What an answer has in common with the one before takes a byte each.
    encoder.grant(4096);
    let lengths = [(); 3].map(|()| {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.lines(&mut block, b"Server: some\r\nContent-Type: text/plain\r\nDate: now\r\n");
        block.len()
    });
    assert_eq!(lengths[1..], [3, 3], "{lengths:?}");
}

#[test]
fn what_is_written_reads_back_and_shrinks() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let mut lengths = Vec::new();
    for table in [4096, 4096, 100, 0, 4096, 4096] {
        encoder.grant(table);
        for wanted in ANSWERS {
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value) in wanted {
                encoder.field(&mut block, name.as_bytes(), value.as_bytes());
            }
            lengths.push(block.len());
            assert_eq!(decode(&mut decoder, &block), fields(wanted));
        }
    }
    assert!(lengths[3] < lengths[0] / 2, "what came before is in the table: {lengths:?}");
}
