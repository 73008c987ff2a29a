//! Sections 1 to 5, 7 and 9 of the Autobahn suite, and frames that are too large or no frames of a client.

use super::*;

#[test]
fn section_1_and_9_messages_of_every_length_come_back() {
    let bytes: Vec<u8> = (0..=255).cycle().take(MESSAGE_BYTES).collect();
    let letters = "*".repeat(MESSAGE_BYTES).into_bytes();
    let bye = close(NORMAL, b"");
    let mut cases = Vec::new();
    for length in [0, 125, 126, 127, 128, 65_535, 65_536, 200_000, MESSAGE_BYTES] {
        cases.push((
            "1.1 text",
            vec![whole(TEXT, &letters[..length]), bye.clone()],
            vec![(TEXT, &letters[..length])],
            NORMAL,
        ));
        cases.push((
            "1.2 binary",
            vec![whole(BINARY, &bytes[..length]), bye.clone()],
            vec![(BINARY, &bytes[..length])],
            NORMAL,
        ));
    }
    let parts: Vec<Vec<u8>> = bytes[..100_000]
        .chunks(64)
        .enumerate()
        .map(|(n, part)| frame(if n == 0 { BINARY } else { CONTINUE }, part))
        .collect();
    cases.push((
        "9.4 parts of 64 bytes",
        vec![parts.concat(), frame(END | CONTINUE, b""), bye.clone()],
        vec![(BINARY, &bytes[..100_000])],
        NORMAL,
    ));
    cases.push((
        "10.1 parts of 1300 bytes",
        vec![
            letters[..65_536]
                .chunks(1300)
                .enumerate()
                .map(|(n, part)| frame(if n == 0 { TEXT } else { CONTINUE }, part))
                .collect::<Vec<_>>()
                .concat(),
            frame(END | CONTINUE, b""),
            bye,
        ],
        vec![(TEXT, &letters[..65_536])],
        NORMAL,
    ));
    check(cases);
}

#[test]
fn section_2_pings_are_answered() {
    let bye = || close(NORMAL, b"");
    let long = [b'x'; 125];
    check(vec![
        ("2.1", vec![whole(PING, b""), bye()], vec![(PONG, b"")], NORMAL),
        ("2.2", vec![whole(PING, b"Hello, world!"), bye()], vec![(PONG, b"Hello, world!")], NORMAL),
        (
            "2.3",
            vec![whole(PING, b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"), bye()],
            vec![(PONG, b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff")],
            NORMAL,
        ),
        ("2.4", vec![whole(PING, long), bye()], vec![(PONG, &long)], NORMAL),
        ("2.5", vec![whole(PING, [b'x'; 126])], vec![], 1002),
        ("2.7", vec![whole(PONG, b""), bye()], vec![], NORMAL),
        ("2.8", vec![whole(PONG, b"unasked"), bye()], vec![], NORMAL),
        ("2.9", vec![whole(PONG, b"unasked"), whole(PING, b"a"), bye()], vec![(PONG, b"a")], NORMAL),
        (
            "2.10",
            vec![(0..10).flat_map(|n| whole(PING, [n])).collect(), bye()],
            vec![
                (PONG, &[0]),
                (PONG, &[1]),
                (PONG, &[2]),
                (PONG, &[3]),
                (PONG, &[4]),
                (PONG, &[5]),
                (PONG, &[6]),
                (PONG, &[7]),
                (PONG, &[8]),
                (PONG, &[9]),
            ],
            NORMAL,
        ),
    ]);
}

#[test]
fn sections_3_and_4_reserved_bits_and_kinds_are_refused() {
    let hello = || whole(TEXT, b"Hello");
    let mut cases = Vec::new();
    for bits in 1..8_u8 {
        cases.push((
            "3.1 to 3.7",
            vec![hello(), whole(bits << 4 | TEXT, b"Hello"), whole(PING, b"")],
            vec![(TEXT, &b"Hello"[..])],
            1002,
        ));
    }
    for kind in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push((
            "4.1, 4.2",
            vec![hello(), whole(kind, b"x"), whole(PING, b"")],
            vec![(TEXT, b"Hello")],
            1002,
        ));
    }
    check(cases);
}

#[test]
fn section_5_messages_come_in_parts() {
    let bye = || close(NORMAL, b"");
    let (a, b, ab): (&[u8], &[u8], &[u8]) = (b"fragment1", b"fragment2", b"fragment1fragment2");
    check(vec![
        ("5.1", vec![frame(PING, a), frame(END | CONTINUE, b)], vec![], 1002),
        ("5.2", vec![frame(PONG, a), frame(END | CONTINUE, b)], vec![], 1002),
        ("5.3", vec![frame(TEXT, a), whole(CONTINUE, b), bye()], vec![(TEXT, ab)], NORMAL),
        (
            "5.6",
            vec![frame(TEXT, a), whole(PING, b"p"), whole(CONTINUE, b), bye()],
            vec![(PONG, b"p"), (TEXT, ab)],
            NORMAL,
        ),
        ("5.9", vec![whole(CONTINUE, a), whole(TEXT, b)], vec![], 1002),
        ("5.10, 5.11", vec![whole(CONTINUE, a), whole(TEXT, b), whole(PING, b"p")], vec![], 1002),
        ("5.12", vec![frame(CONTINUE, a), whole(TEXT, b)], vec![], 1002),
        (
            "5.15",
            vec![frame(TEXT, a), whole(CONTINUE, b), frame(CONTINUE, a), whole(TEXT, b)],
            vec![(TEXT, ab)],
            1002,
        ),
        (
            "5.16, 5.17",
            [(); 2].map(|()| [frame(CONTINUE, a), frame(TEXT, a), whole(CONTINUE, b)].concat()).into(),
            vec![],
            1002,
        ),
        ("5.18", vec![frame(TEXT, a), whole(TEXT, b)], vec![], 1002),
        (
            "5.19",
            vec![
                frame(TEXT, a),
                frame(CONTINUE, b),
                whole(PING, b"1"),
                frame(CONTINUE, a),
                frame(CONTINUE, b),
                whole(PING, b"2"),
                whole(CONTINUE, b""),
                bye(),
            ],
            vec![(PONG, b"1"), (PONG, b"2"), (TEXT, b"fragment1fragment2fragment1fragment2")],
            NORMAL,
        ),
        ("6.1.1", vec![whole(TEXT, b""), bye()], vec![(TEXT, b"")], NORMAL),
        (
            "6.1.2",
            vec![frame(TEXT, b""), frame(CONTINUE, b""), whole(CONTINUE, b""), bye()],
            vec![(TEXT, b"")],
            NORMAL,
        ),
        (
            "6.1.3",
            vec![frame(TEXT, b""), frame(CONTINUE, b"x"), whole(CONTINUE, b""), bye()],
            vec![(TEXT, b"x")],
            NORMAL,
        ),
    ]);
}

#[test]
fn section_7_closes_are_answered_once() {
    let bye = || close(NORMAL, b"");
    let long = [b'B'; 256 * 1024];
    let mut cases = vec![
        ("7.1.1", vec![whole(TEXT, b"Hello World!"), bye()], vec![(TEXT, &b"Hello World!"[..])], NORMAL),
        ("7.1.2", vec![bye(), bye()], vec![], NORMAL),
        ("7.1.3", vec![bye(), whole(PING, b"")], vec![], NORMAL),
        ("7.1.4", vec![bye(), whole(TEXT, b"late")], vec![], NORMAL),
        (
            "7.1.6",
            vec![whole(TEXT, long), whole(TEXT, b"Hello World!"), bye(), whole(PING, b"")],
            vec![(TEXT, &long), (TEXT, b"Hello World!")],
            NORMAL,
        ),
        ("7.1.5", vec![frame(TEXT, b"part"), bye(), whole(CONTINUE, b"late")], vec![], NORMAL),
        ("7.3.2", vec![whole(CLOSE, b"a")], vec![], 1002),
        ("7.3.3", vec![close(NORMAL, b"")], vec![], NORMAL),
        ("7.3.4", vec![close(NORMAL, b"Hello World!")], vec![], NORMAL),
        ("7.3.5", vec![close(NORMAL, &[b'*'; 123])], vec![], NORMAL),
        ("7.3.6", vec![close(NORMAL, &[b'*'; 124])], vec![], 1002),
        ("7.5.1", vec![close(NORMAL, b"\xce\xba\xed\xa0\x80")], vec![], 1007),
    ];
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999] {
        cases.push(("7.7", vec![close(code, b"")], vec![], code));
    }
    // A gateway's own code is answered by the one before it.
    cases.push(("registered", vec![close(1014, b"")], vec![], 1013));
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
        cases.push(("7.9, 7.13", vec![close(code, b"")], vec![], 1002));
    }
    check(cases);
    // 7.3.1: a close without a code is answered by one without.
    let server = echo(Model::Coroutines);
    assert_eq!(answers(&server, &whole(CLOSE, b""), 7), [(END | CLOSE, vec![])]);
}

#[test]
fn what_is_larger_than_allowed_or_no_frame_of_a_client_is_refused() {
    let mut unmasked = vec![END | TEXT, 2];
    unmasked.extend_from_slice(b"hi");
    let part = vec![b'x'; 200_000];
    let empty: Vec<u8> = frame(CONTINUE, b"").repeat(200);
    check(vec![
        ("no mask", vec![unmasked], vec![], 1002),
        ("a long frame", vec![whole(BINARY, vec![0; MESSAGE_BYTES + 1])], vec![], 1009),
        (
            "a long frame that never comes",
            vec![vec![END | BINARY, 0xff, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]],
            vec![],
            1009,
        ),
        (
            "a length that cannot be",
            vec![vec![END | BINARY, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 1, 2, 3, 4]],
            vec![],
            1002,
        ),
        (
            "a length that is longer than it must be",
            vec![vec![END | TEXT, 0xfe, 0, 1, 0, 0, 0, 0, b'a']],
            vec![],
            1002,
        ),
        ("a long message", vec![frame(BINARY, &part), frame(CONTINUE, &part)], vec![], 1009),
        ("parts of nothing", vec![frame(TEXT, b"a"), empty], vec![], 1008),
    ]);
    let server = echo(Model::Coroutines);
    let mut flood = Socket::new(&server);
    flood.send(&whole(PONG, b"x").repeat(1000));
    assert_eq!(
        flood.all().pop().map(|(_, payload)| payload[..2].to_vec()),
        Some(1008_u16.to_be_bytes().to_vec())
    );
}
