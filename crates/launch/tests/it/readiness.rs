//! Ready or not, and why not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use launch::{Exit, LaunchError, Launcher, ProbeError, Process, probe};
use model::plan::Expect;
use model::record::FailureKind;

use crate::support::{FIXTURE, at_once, free_addr, launcher, log_lines, script, server, spec, wait_ready};

const PATIENCE: Duration = Duration::from_secs(10);

fn hello() -> Expect {
    Expect {
        body: Some("hello".to_owned()),
        content_type: Some("text/plain".to_owned()),
        ..Expect::default()
    }
}

fn start(fault: &str) -> (Process, std::net::SocketAddr) {
    let (spec, addr) = server(fault);
    (launcher().start(&spec).unwrap(), addr)
}

#[test]
fn a_server_that_takes_its_time_is_ready_when_it_answers() {
    let (mut process, addr) = start("slow-start");
    let ready = wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap();
    assert!(ready.ready_ms >= 400 && ready.ready_ms < 5000, "{} ms", ready.ready_ms);
    assert_eq!((ready.answer.status, ready.answer.body_bytes), (200, 5));
    // printf hello | sha256sum
    let sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(ready.answer.body_sha256, sum);
}

#[test]
fn an_answer_is_recorded_as_it_was_on_the_wire() {
    let (mut process, addr) = start("no-date");
    let answer = wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap().answer;
    assert_eq!(answer, probe(addr, "/", PATIENCE).unwrap());
    let wire = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(answer.wire_bytes, wire.len() as u64);
    let headers = [("Content-Type", "text/plain"), ("Content-Length", "5")];
    assert_eq!(answer.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn a_chunked_answer_has_the_same_body_and_more_bytes_on_the_wire() {
    let (mut process, addr) = start("chunked");
    let expect = Expect { content_type: None, ..hello() };
    let answer = wait_ready(&mut process, addr, "/", &expect, PATIENCE).unwrap().answer;
    let wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    assert_eq!((answer.body_bytes, answer.wire_bytes), (5, wire.len() as u64));
}

#[test]
fn a_target_that_ends_first_is_named_with_its_last_lines() {
    let text = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 3";
    let mut process = launcher().start(&script(text)).unwrap();
    let error = wait_ready(&mut process, free_addr(), "/", &hello(), PATIENCE).unwrap_err();
    let failure = error.failure();
    assert_eq!(failure.kind, FailureKind::Exited);
    assert_eq!(failure.text, "it exited with code 3 before it was ready");
    assert_eq!(failure.log.len(), 10);
    assert_eq!(failure.log[9], "line 12");
}

#[test]
fn a_wrong_answer_is_shown() {
    let cases = [
        ("other-body", "a body of 7 bytes, 'goodbye', instead of the expected 5 bytes"),
        ("error-status", "status 500 instead of 200"),
        ("garbage", "not HTTP"),
        ("chunked", "content type none instead of text/plain"),
    ];
    at_once(cases, |(fault, words)| {
        let (mut process, addr) = start(fault);
        let begin = Instant::now();
        let failure = wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap_err().failure();
        assert_eq!(failure.kind, FailureKind::WrongAnswer, "{fault}: {}", failure.text);
        assert!(failure.text.contains(words), "{fault}: {}", failure.text);
        assert!(begin.elapsed() < Duration::from_secs(6), "{fault}: {:?}", begin.elapsed());
    });
}

#[test]
fn a_server_that_says_that_it_is_not_ready_yet_is_waited_for() {
    let (mut process, addr) = start("loading");
    let ready = wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap();
    assert!(ready.ready_ms >= 4000, "{} ms", ready.ready_ms);
}

#[test]
fn a_server_that_goes_to_the_background_serves_until_it_ends_there() {
    let addr = free_addr();
    let text = format!("setsid {FIXTURE} serve {} none & exit 0", addr.port());
    let mut process = launcher().start(&script(&text)).unwrap();
    wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap();
    assert_eq!(process.wait(Duration::from_millis(100)), None);
    assert_eq!(launch::listeners(process.supervisor_pid()).into_iter().next(), Some(addr));
    let stopped = process.stop();
    assert_eq!((stopped.exit, stopped.left), (Some(Exit::Signal(15)), 0));
}

#[test]
fn a_server_that_ends_in_the_background_has_ended() {
    let mut process = launcher().start(&script("(sleep 0.2; exit 7) & exit 0")).unwrap();
    let failure = wait_ready(&mut process, free_addr(), "/", &hello(), PATIENCE).unwrap_err().failure();
    assert_eq!(
        (failure.kind, failure.text.as_str()),
        (FailureKind::Exited, "it exited with code 7 before it was ready")
    );
}

#[test]
fn a_server_that_listens_on_another_port_alone_is_not_waited_for_to_the_end() {
    let (spec, other) = server("none");
    let mut process = launcher().start(&spec).unwrap();
    let expected_addr = free_addr();
    let begin = Instant::now();
    let error = wait_ready(&mut process, expected_addr, "/", &hello(), 6 * PATIENCE).unwrap_err();
    let want = format!(
        "it listens on {other} instead of {expected_addr}: write {{port}} where its command names the port"
    );
    assert!(error.to_string().contains(&want), "{error}");
    assert!(begin.elapsed() < 2 * PATIENCE, "it took {:?}", begin.elapsed());
}

#[test]
fn a_body_that_is_no_text_is_known_by_its_sum() {
    let (mut process, addr) = start("none");
    let expect = |bytes: &[u8]| Expect { body_sha256: Some(launch::sha256(bytes)), ..Expect::default() };
    wait_ready(&mut process, addr, "/", &expect(b"hello"), PATIENCE).unwrap();
    let error = wait_ready(&mut process, addr, "/", &expect(b"\xff"), PATIENCE).unwrap_err();
    assert!(error.to_string().contains("another body than expected, of 5 bytes"), "{error}");
}

#[test]
fn builds_and_waits_end_when_nobody_wants_them_any_more() {
    let stop = Arc::new(AtomicBool::new(false));
    let launcher = launcher().until(Arc::clone(&stop));
    let mut process = launcher.start(&script("exec sleep 60")).unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        let error = wait_ready(&mut process, free_addr(), "/", &hello(), PATIENCE).unwrap_err();
        assert!(matches!(error, LaunchError::Interrupted), "{error}");
    });
    let words = ["sh", "-c", "sleep 60"].map(str::to_owned).to_vec();
    let arm = buildable(vec![words], "/nonexistent");
    let log = crate::support::fresh_log();
    let error = launcher
        .build(
            &model::plan::Arm { build_dir: None, ..arm },
            &model::plan::Placeholders::default(),
            &log,
            &mut |_| {},
        )
        .unwrap_err();
    assert!(matches!(error, LaunchError::Interrupted), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn a_port_on_which_closed_connections_linger_is_not_free() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut client = std::net::TcpStream::connect(addr).unwrap();
    // Who closes first is left with the connection for a minute.
    drop(listener.accept().unwrap());
    drop(listener);
    assert_eq!(std::io::Read::read(&mut client, &mut [0]).unwrap(), 0);
    drop(client);
    assert!(!launch::port_free(addr.port()), "a server that does not ask for it could not have it");
}

/// An arm with these build commands.
fn buildable(build: Vec<Vec<String>>, build_dir: &str) -> model::plan::Arm {
    model::plan::Arm {
        name: "x".to_owned(),
        source: model::plan::ArmSource::Command,
        build,
        run: vec!["true".to_owned()],
        env: Default::default(),
        dir: None,
        build_dir: Some(build_dir.to_owned()),
        port_env: false,
        circumstances: model::plan::Circumstances::default(),
        services: Vec::new(),
        warmup: model::plan::WarmupClass::Native,
        expect: hello(),
    }
}

#[test]
fn another_port_is_found_and_named() {
    let (mut process, really) = start("none");
    let expected_addr = free_addr();
    let failure = wait_ready(&mut process, expected_addr, "/", &hello(), Duration::from_millis(700))
        .unwrap_err()
        .failure();
    assert_eq!(failure.kind, FailureKind::NotReady);
    let expected =
        format!("it did not answer within 0.7 s: it listens on {really} instead of {expected_addr}");
    assert!(failure.text.starts_with(&expected), "{}", failure.text);
}

#[test]
fn another_loopback_address_is_found_at_once_and_named() {
    // Not every host has IPv6.
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let (mut process, addr) = start("ipv6");
    let begin = Instant::now();
    let error = wait_ready(&mut process, addr, "/", &hello(), 6 * PATIENCE).unwrap_err();
    let want = format!("it listens on [::1]:{} instead of {addr}: write {{host}} where", addr.port());
    assert!(matches!(error, LaunchError::Elsewhere { .. }) && error.to_string().contains(&want), "{error}");
    assert!(begin.elapsed() < PATIENCE, "it took {:?}", begin.elapsed());
}

#[test]
fn a_target_that_never_listens_is_said_to() {
    let mut process = launcher().start(&script("echo thinking; exec sleep 60")).unwrap();
    let failure = wait_ready(&mut process, free_addr(), "/", &hello(), Duration::from_millis(300))
        .unwrap_err()
        .failure();
    assert!(failure.text.contains("listens on no TCP port"), "{}", failure.text);
    assert_eq!(failure.log, ["thinking"]);
}

#[test]
fn a_server_that_listens_and_never_answers_is_said_to() {
    let (mut process, addr) = start("mute");
    let failure =
        wait_ready(&mut process, addr, "/", &hello(), Duration::from_millis(500)).unwrap_err().failure();
    assert!(failure.text.contains(&format!("on {addr} no complete answer in time")), "{}", failure.text);
}

#[test]
fn somebody_else_on_the_port_is_not_the_target() {
    let (mut other, addr) = start("none");
    wait_ready(&mut other, addr, "/", &hello(), PATIENCE).unwrap();
    let (mut process, _) = start("none");
    std::thread::sleep(Duration::from_millis(300));
    let error = wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap_err();
    assert!(error.to_string().contains("another process answers"), "{error}");
}

#[test]
fn a_child_of_the_target_may_be_the_one_that_serves() {
    let addr = free_addr();
    let text = format!("'{FIXTURE}' serve {} none & wait", addr.port());
    let mut process = launcher().start(&script(&text)).unwrap();
    wait_ready(&mut process, addr, "/", &hello(), PATIENCE).unwrap();
    assert_eq!(process.stop().left, 0);
    assert!(launch::port_free(addr.port()));
}

#[test]
fn a_probe_without_a_server_says_so() {
    // Port 9 (discard) has no server where tests run, and no other test takes it, as it might a free one.
    let error = probe(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)), "/", PATIENCE).unwrap_err();
    assert!(matches!(error, ProbeError::Connect(_)), "{error}");
}

#[test]
fn builds_run_in_order_and_stop_at_the_first_that_fails() {
    let dir = crate::support::fresh_log().with_extension("build");
    let words = |text: &str| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()];
    let build =
        vec![words("echo first > {build}/made"), words("cat {build}/made; exit 4"), words("echo third")];
    let arm = buildable(build, dir.to_str().unwrap());
    let values = model::plan::Placeholders { build: dir.to_str().unwrap().to_owned(), ..Default::default() };
    let log = crate::support::fresh_log();
    let mut steps = Vec::new();
    let error = launcher().build(&arm, &values, &log, &mut |step| steps.push(step.step)).unwrap_err();
    assert_eq!(steps, [1, 2]);
    assert!(matches!(&error, LaunchError::Build { log, .. } if *log == ["first"]), "{error}");
    assert!(error.to_string().ends_with("exited with code 4"), "{error}");
    let good = model::plan::Arm { build: vec![words("echo first > {build}/made")], ..arm };
    launcher().build(&good, &values, &log, &mut |_| {}).unwrap();
}

#[test]
fn a_replaced_executable_is_noticed_by_its_sum() {
    let (sum, bytes) = launch::sha256_file(FIXTURE.as_ref()).unwrap();
    assert_eq!(bytes, std::fs::metadata(FIXTURE).unwrap().len());
    assert_eq!(sum.len(), 64);
    assert!(launch::sha256_file("/no/such/file".as_ref()).is_err());
}

#[test]
fn a_launcher_needs_a_program_that_plays_its_roles() {
    let error = Launcher::new("/bin/true".into()).start(&spec(&["true"])).map(drop).unwrap_err();
    assert!(error.to_string().contains("supervisor ended"), "{error}");
    let mut process = launcher().start(&script("echo up; sleep 60")).unwrap();
    log_lines(process.log(), 1);
    assert_eq!(process.try_exit(), None);
}
