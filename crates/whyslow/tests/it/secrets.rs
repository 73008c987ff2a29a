//! What may be secret is sent and nowhere kept or shown: values of fields by their names and hashes.

use std::path::Path;

use crate::support::{Printed, SHORT, arm, fresh_folder, whyslow_in};

/// In a header of the command line, and in a header, a query and a body of a file and a row of its data.
const SECRETS: [&str; 5] = [
    "t0ken-of-the-command",
    "t0ken-of-the-file",
    "t0ken-of-the-query",
    "t0ken-of-the-body",
    "t0ken-of-the-row",
];

/// Files at or below `folder` that hold a secret.
fn holders(folder: &Path, except: &[&str]) -> Vec<std::path::PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_none_or(|name| !except.iter().any(|one| name == *one)) {
                let bytes = std::fs::read(&path).unwrap();
                let holds = |secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                found.extend(SECRETS.into_iter().any(holds).then_some(path));
            }
        }
    }
    found
}

fn leaks(printed: &Printed) -> bool {
    SECRETS.iter().any(|secret| printed.out.contains(secret) || printed.err.contains(secret))
}

#[test]
fn a_secret_in_a_header_is_neither_kept_nor_printed() {
    let folder = fresh_folder();
    let [_, key, query, body, row] = SECRETS;
    let request =
        format!("POST /?page=2&token={query} HTTP/1.1\nX-Key: {key}\n\n{{\"{body}\": \"{{word}}\"}}\n");
    std::fs::write(folder.join("asked.http"), request).unwrap();
    std::fs::write(folder.join("words.csv"), format!("word\n{row}\n")).unwrap();
    let header = format!("Authorization: Bearer {}", SECRETS[0]);
    let (old, new) = (arm("old", "none"), arm("new", "none"));
    let args = ["compare", &old, &new, "-H", &header, "--requests", "asked.http", "--data", "words.csv"];
    let kept = [
        "--equal-rates",
        "none",
        "--comment",
        "comment.md",
        "--junit",
        "tests.xml",
        "--out",
        "whyslow-runs/run",
        "--format",
        "json",
    ];
    let printed = whyslow_in(&folder, &[&args[..], &SHORT, &kept].concat());
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    assert!(!leaks(&printed) && printed.out.contains("Authorization: ..."), "its name is told: {printed:?}");
    for later in [
        &["analyse", "whyslow-runs/run", "--details"][..],
        &["analyse", "whyslow-runs/run", "--format", "json"],
        &["report", "whyslow-runs/run", "-o", "page.html"],
        &["history", "--format", "json"],
    ] {
        let printed = whyslow_in(&folder, later);
        assert!(printed.code.is_some_and(|code| code != 2) && !leaks(&printed), "{later:?}: {printed:?}");
        let names_file = printed.out.contains("what was sent is from asked.http (SHA-256 ");
        assert!(names_file || !later.contains(&"--details"), "which file it was: {printed:?}");
    }
    let listed = whyslow_in(&folder, &[&args[..], &["--list", "--format", "json"]].concat());
    assert!(listed.code == Some(0) && !leaks(&listed), "{listed:?}");
    assert!(listed.out.contains("sha256:"), "{listed:?}");
    assert_eq!(holders(&folder, &["asked.http", "words.csv"]), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_secret_in_a_header_is_not_in_what_load_keeps() {
    let folder = fresh_folder();
    let server = testkit::Server::start(testkit::ServerSpec::new(testkit::Behaviour::Prompt));
    let header = format!("Authorization: Bearer {}", SECRETS[0]);
    let args = [
        "load",
        "-c2",
        "-t1",
        "-d300ms",
        "-H",
        &header,
        "--hlog",
        "log.hlog",
        "--prometheus",
        "figures.prom",
        &server.url(),
    ];
    let printed = whyslow_in(&folder, &args);
    assert!(printed.code == Some(0) && !leaks(&printed), "{printed:?}");
    for (file, text) in [
        ("no-colon.http", format!("###\nGET /a HTTP/1.1\nAuthorization {}\n", SECRETS[1])),
        ("other.har", format!("{{\"log\": \"{}\"}}", SECRETS[1])),
        ("header.txt", format!("Authorization: Bearer {}\n", SECRETS[1])),
        ("curl.sh", format!("curl http://h/a -H 'Bearer {}'\n", SECRETS[1])),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
        let printed = whyslow_in(&folder, &["load", "--requests", file, &server.url()]);
        assert!(
            printed.code == Some(2) && printed.err.lines().count() == 1 && !leaks(&printed),
            "{printed:?}"
        );
        std::fs::remove_file(folder.join(file)).unwrap();
    }
    for wrong in [format!("Bearer {}", SECRETS[0]), format!("A b: {}", SECRETS[0])] {
        let printed = whyslow_in(&folder, &["load", "-H", &wrong, &server.url()]);
        assert!(
            printed.code == Some(2) && printed.err.lines().count() == 1 && !leaks(&printed),
            "{printed:?}"
        );
    }
    assert_eq!(holders(&folder, &[]), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn names_and_tokens_in_urls_are_told_to_nobody() {
    let folder = fresh_folder();
    let [secret, ..] = SECRETS;
    let named = format!("a=http://me:{secret}@127.0.0.1:1/");
    let printed = whyslow_in(&folder, &["compare", &named, "threads", "--list"]);
    assert!(
        printed.code == Some(2) && printed.err.contains("'http://...@127.0.0.1:1/' has a user's name"),
        "{printed:?}"
    );
    assert!(!leaks(&printed), "{printed:?}");
    let server = testkit::Server::start(testkit::ServerSpec::new(testkit::Behaviour::Prompt));
    let url = format!("{}?page=2&api_key={secret}", server.url());
    let printed = whyslow_in(&folder, &["load", "-c1", "-t1", "-d200ms", "--format", "json", &url]);
    assert!(
        printed.code == Some(0) && !leaks(&printed) && printed.out.contains("?page=2&api_key=..."),
        "{printed:?}"
    );
    let plain = arm("b", "none");
    let path = format!("/?token={secret}");
    let args = [
        "compare",
        &arm("a", "none"),
        &plain,
        "--path",
        &path,
        "--equal-rates",
        "none",
        "--no-why",
        "--out",
        "run",
    ];
    let printed = whyslow_in(&folder, &[&args[..], &SHORT].concat());
    assert!([Some(4), Some(5)].contains(&printed.code) && !leaks(&printed), "{printed:?}");
    assert_eq!(holders(&folder, &[]), [""; 0].map(std::path::PathBuf::from));
}
