//! Section 6 of the Autobahn suite: text is UTF-8, whatever the frames it comes in.

use super::{CONTINUE, Case, END, NORMAL, TEXT, check, close, frame, whole};

/// “κόσμε” as the suite writes it, with an accent of its own.
const KOSME: &[u8] = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5";

/// The text comes back.
fn good<'c>(name: &'c str, text: &'c [u8]) -> Case<'c> {
    (name, vec![whole(TEXT, text), close(NORMAL, b"")], vec![(TEXT, text)], NORMAL)
}

/// The text ends the connection, whole and in parts.
fn bad<'c>(name: &'c str, text: &[u8]) -> [Case<'c>; 2] {
    let (first, rest) = text.split_at(1);
    [
        (name, vec![whole(TEXT, text)], vec![], 1007),
        (name, vec![frame(TEXT, first), whole(CONTINUE, rest)], vec![], 1007),
    ]
}

#[test]
fn sections_6_2_to_6_4_text_comes_in_parts_and_faults_are_found_at_once() {
    let bytes = KOSME.iter().enumerate();
    let parts = bytes.flat_map(|(n, byte)| frame(if n == 0 { TEXT } else { CONTINUE }, &[*byte])).collect();
    let half: &[u8] = b"Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!";
    let mut cases = vec![
        good("6.2.1", half),
        // 6.2.2 and 6.2.3: cut anywhere, within characters too.
        (
            "6.2.2",
            vec![frame(TEXT, &half[..7]), whole(CONTINUE, &half[7..]), close(NORMAL, b"")],
            vec![(TEXT, half)],
            NORMAL,
        ),
        ("6.2.4", vec![parts, whole(CONTINUE, b""), close(NORMAL, b"")], vec![(TEXT, KOSME)], NORMAL),
        // The message goes on, and is refused before its end.
        ("6.4", vec![frame(TEXT, KOSME), frame(CONTINUE, b"\xf4\x90\x80\x80")], vec![], 1007),
    ];
    cases.extend(bad("6.3", &[KOSME, b"\xed\xa0\x80edited"].concat()));
    check(cases);
}

#[test]
fn section_6_6_a_text_cut_within_a_character_is_none() {
    let ends = |length: usize| std::str::from_utf8(&KOSME[..length]).is_ok();
    let mut cases = Vec::new();
    for length in 1..=KOSME.len() {
        match ends(length) {
            true => cases.push(good("6.6", &KOSME[..length])),
            false => cases.extend(bad("6.6", &KOSME[..length])),
        }
    }
    check(cases);
}

#[test]
fn sections_6_5_to_6_11_first_and_last_of_each_length() {
    let mut cases: Vec<Case<'_>> = [
        KOSME,
        b"hello\xc2\xa2world",
        b"\0",
        b"\xc2\x80",
        b"\xe0\xa0\x80",
        b"\xf0\x90\x80\x80",
        b"\x7f",
        b"\xdf\xbf",
        b"\xef\xbf\xbf",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbd",
        b"\xf4\x8f\xbf\xbf",
    ]
    .map(|text| good("6.5, 6.7, 6.9, 6.11", text))
    .into();
    for text in [
        &b"\xf8\x88\x80\x80\x80"[..],
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xfb\xbf\xbf\xbf\xbf",
        b"\xfd\xbf\xbf\xbf\xbf\xbf",
        b"\xf4\x90\x80\x80",
    ] {
        cases.extend(bad("6.8, 6.10, 6.11", text));
    }
    check(cases);
}

#[test]
fn sections_6_12_to_6_16_bytes_in_the_wrong_place() {
    let each = |bytes: std::ops::RangeInclusive<u8>| bytes.flat_map(|byte| [byte, b' ']).collect::<Vec<u8>>();
    // Characters without their last byte, and all of them after each other.
    let cut: [&[u8]; 10] = [
        b"\xc0",
        b"\xe0\x80",
        b"\xf0\x80\x80",
        b"\xf8\x80\x80\x80",
        b"\xfc\x80\x80\x80\x80",
        b"\xdf",
        b"\xef\xbf",
        b"\xf7\xbf\xbf",
        b"\xfb\xbf\xbf\xbf",
        b"\xfd\xbf\xbf\xbf\xbf",
    ];
    let mut texts: Vec<Vec<u8>> =
        (1..=7).map(|count| [0x80, 0xbf].into_iter().cycle().take(count).collect()).collect();
    texts.extend([vec![0xbf], (0x80..=0xbf).collect()]);
    texts.extend([
        each(0xc0..=0xdf),
        each(0xe0..=0xef),
        each(0xf0..=0xf7),
        each(0xf8..=0xfb),
        each(0xfc..=0xfd),
    ]);
    texts.extend(cut.map(<[u8]>::to_vec));
    texts.push(cut.concat());
    texts.extend([vec![0xfe], vec![0xff], vec![0xfe, 0xfe, 0xff, 0xff]]);
    check(texts.iter().flat_map(|text| bad("6.12 to 6.16", text)).collect());
}

#[test]
fn sections_6_17_to_6_21_what_is_too_long_and_halves_of_pairs() {
    let long: [&[u8]; 15] = [
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf8\x80\x80\x80\xaf",
        b"\xfc\x80\x80\x80\x80\xaf",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf8\x87\xbf\xbf\xbf",
        b"\xfc\x83\xbf\xbf\xbf\xbf",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xf8\x80\x80\x80\x80",
        b"\xfc\x80\x80\x80\x80\x80",
    ];
    let (first, second) = ([0xa080, 0xadbf, 0xae80, 0xafbf], [0xb080, 0xbe80, 0xbfbf]);
    let half = |bytes: u16| [&[0xed][..], &bytes.to_be_bytes()].concat();
    let mut cases: Vec<Case<'_>> = long.iter().flat_map(|text| bad("6.17 to 6.19", text)).collect();
    cases.extend(first.iter().chain(&second).flat_map(|one| bad("6.20", &half(*one))));
    let pairs = first.iter().flat_map(|one| [0xb080, 0xbfbf].map(|two| [half(*one), half(two)].concat()));
    cases.extend(pairs.flat_map(|pair| bad("6.21", &pair)));
    check(cases);
}

#[test]
fn sections_6_22_and_6_23_characters_that_are_none_are_text_all_the_same() {
    let last_two = (0..=0x10).flat_map(|plane| [0xfffe, 0xffff].map(|low| plane << 16 | low));
    let special = 0xfff9..=0xfffd;
    let texts: Vec<String> =
        last_two.chain(special).map(|code: u32| char::from_u32(code).unwrap().to_string()).collect();
    assert_eq!(texts.len(), 39);
    let all = texts.iter().enumerate();
    let sent =
        all.flat_map(|(n, text)| frame(if n == 0 { TEXT } else { CONTINUE }, text.as_bytes())).collect();
    let joined = texts.concat();
    let mut cases: Vec<Case<'_>> = texts.iter().map(|text| good("6.22, 6.23", text.as_bytes())).collect();
    cases.push((
        "6.22 in one message",
        vec![sent, frame(END | CONTINUE, b""), close(NORMAL, b"")],
        vec![(TEXT, joined.as_bytes())],
        NORMAL,
    ));
    check(cases);
}
