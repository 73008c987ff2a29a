//! Start, stop, and what is left behind: nothing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use launch::{Exit, LaunchError, Spec};
use model::record::FailureKind;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{FIXTURE, fresh_log, launcher, living, log_lines, marker, script, spec, within};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// A script whose processes carry `marker`: `$0` of every shell in it.
fn marked(marker: &str, text: &str) -> Spec {
    spec(&["sh", "-c", text, marker])
}

#[test]
fn a_target_that_heeds_sigterm_ends_by_it() {
    let process = launcher().start(&script("echo up; exec sleep 60")).unwrap();
    log_lines(process.log(), 1);
    let begin = Instant::now();
    let stopped = process.stop();
    assert_eq!(stopped.exit, Some(Exit::Signal(SIGTERM)));
    assert_eq!((stopped.killed, stopped.left), (0, 0));
    assert!(begin.elapsed() < Duration::from_secs(2), "it took {:?}", begin.elapsed());
}

#[test]
fn a_target_that_ignores_sigterm_is_killed_after_three_seconds() {
    let marker = marker("ignores");
    let text = "trap '' TERM; echo up; while :; do sleep 0.1; done";
    let process = launcher().start(&marked(&marker, text)).unwrap();
    log_lines(process.log(), 1);
    let begin = Instant::now();
    let stopped = process.stop();
    assert_eq!(stopped.exit, Some(Exit::Signal(SIGKILL)));
    assert!(stopped.killed >= 1);
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(5), "it took {took:?}");
    assert_eq!(living(&marker), [0; 0]);
}

#[test]
fn children_in_sessions_of_their_own_are_stopped_too() {
    let marker = marker("daemon");
    // One child leaves the group, one loses its parent, one does both and ignores SIGTERM.
    let text = "setsid sh -c 'echo up; while :; do sleep 0.1; done' $0 &
        sh -c 'sh -c \"echo up; while :; do sleep 0.1; done\" $0 &' $0
        sh -c 'setsid sh -c \"trap : TERM; echo up; while :; do sleep 0.1; done\" $0 &' $0
        echo up; exec sleep 60";
    let process = launcher().start(&marked(&marker, text)).unwrap();
    log_lines(process.log(), 4);
    assert!(living(&marker).len() >= 3, "{:?}", living(&marker));
    let stopped = process.stop();
    assert_eq!(stopped.left, 0);
    assert!(stopped.killed >= 1);
    assert_eq!(living(&marker), [0; 0]);
}

#[test]
fn what_is_not_below_a_target_is_removed_first_and_again_where_that_did_not_end_it() {
    let file = fresh_log();
    let path = file.display().to_string();
    let with = |text: &str, afterwards: &str| {
        let words = ["sh", "-c", afterwards, &path].map(str::to_owned);
        Spec { afterwards: words.to_vec(), ..script(text) }
    };
    let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();

    let waits = format!("echo up; until [ -e {path} ]; do sleep 0.02; done");
    let process = launcher().start(&with(&waits, "echo gone >> $0")).unwrap();
    log_lines(process.log(), 1);
    let stopped = process.stop();
    assert_eq!(
        (stopped.exit, stopped.killed, stopped.left),
        (Some(Exit::Code(0)), 0, 0),
        "it ended by itself"
    );
    assert_eq!(lines(), 1);

    let process = launcher().start(&with("echo up; exec sleep 60", "echo gone >> $0; exit 1")).unwrap();
    log_lines(process.log(), 1);
    assert_eq!(process.stop().exit, Some(Exit::Signal(SIGTERM)));
    assert_eq!(lines(), 3, "what it left undone was done again");

    let process = launcher().start(&with("echo up; exec sleep 60", "echo gone >> $0; exit 1")).unwrap();
    log_lines(process.log(), 1);
    drop(process);
    assert_eq!(lines(), 5, "also where nobody says stop");
}

#[test]
fn dropping_kills_at_once() {
    let marker = marker("drop");
    let process =
        launcher().start(&marked(&marker, "trap '' TERM; echo up; while :; do sleep 0.1; done")).unwrap();
    log_lines(process.log(), 1);
    let begin = Instant::now();
    drop(process);
    assert!(begin.elapsed() < Duration::from_secs(2), "it took {:?}", begin.elapsed());
    assert_eq!(living(&marker), [0; 0]);
}

#[test]
fn killing_the_parent_leaves_nothing() {
    let marker = marker("orphan");
    let text = "trap '' TERM HUP INT
        setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' $0 & echo up
        while :; do sleep 0.1; done";
    let log = fresh_log();
    let mut parent = Command::new(FIXTURE)
        .args(["parent", log.to_str().unwrap(), "sh", "-c", text, &marker])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pids = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut pids).unwrap();
    log_lines(&log, 1);
    assert!(living(&marker).len() >= 3, "parent, target and its child live: {:?}", living(&marker));
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(within(Duration::from_secs(2), || living(&marker).is_empty()), "{:?}", living(&marker));
    let supervisor: u32 = pids.split(' ').next().unwrap().parse().unwrap();
    assert!(within(Duration::from_secs(2), || !is_running(supervisor)));
}

#[test]
fn a_folder_of_its_own_is_there_from_start_to_end() {
    let text = "echo x > \"$0/x\"; ls -d \"$0\"; while :; do sleep 0.1; done";
    let mut folders = Vec::new();
    for _ in 0..2 {
        let folder = spec(&["sh", "-c", text, "{tmp}"]);
        let process = launcher().start(&folder).unwrap();
        let own = log_lines(&folder.log, 1)[0].clone();
        assert!(Path::new(&own).join("x").exists(), "{own}");
        assert_eq!(process.stop().left, 0);
        assert!(!Path::new(&own).exists(), "{own} is left");
        folders.push(own);
    }
    assert_ne!(folders[0], folders[1]);
    // Also when whoever started it is killed.
    let log = fresh_log();
    let mut parent = Command::new(FIXTURE)
        .args(["parent", log.to_str().unwrap(), "sh", "-c", text, "{tmp}"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let own = log_lines(&log, 1)[0].clone();
    assert!(Path::new(&own).exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(within(Duration::from_secs(2), || !Path::new(&own).exists()), "{own} is left");
}

/// Whether a process is there and not only waits to be waited for.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn killing_the_supervisor_kills_the_target() {
    let marker = marker("supervisor");
    let mut process =
        launcher().start(&marked(&marker, "trap '' TERM; echo up; while :; do sleep 0.1; done")).unwrap();
    log_lines(process.log(), 1);
    kill(process.supervisor_pid());
    assert_eq!(process.wait(Duration::from_secs(2)), Some(Exit::Signal(SIGKILL)));
    assert!(within(Duration::from_secs(2), || living(&marker).is_empty()), "{:?}", living(&marker));
}

#[test]
fn the_end_of_a_target_is_told_with_its_code_or_signal() {
    for (text, expected) in [
        ("exit 0", Exit::Code(0)),
        ("exit 7", Exit::Code(7)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("kill -TERM $$", Exit::Signal(SIGTERM)),
    ] {
        let mut process = launcher().start(&script(text)).unwrap();
        assert_eq!(process.wait(Duration::from_secs(10)), Some(expected), "{text}");
        assert_eq!(process.try_exit(), Some(expected), "{text}, asked again");
        assert_eq!(process.stop().exit, Some(expected), "{text}, when stopped");
    }
}

#[test]
fn a_running_target_has_no_end() {
    let mut process = launcher().start(&script("exec sleep 60")).unwrap();
    let begin = Instant::now();
    assert_eq!(process.try_exit(), None);
    assert!(begin.elapsed() < Duration::from_millis(500));
}

#[test]
fn the_group_is_the_targets_own_and_its_streams_are_closed_off() {
    let text = "read -r line; echo \"stdin ended: $?\" >&2
        read -r pid name state parent group rest < /proc/self/stat; echo $$ $group
        (echo /proc/$$/fd/*)";
    let mut process = launcher().start(&script(text)).unwrap();
    process.wait(Duration::from_secs(10)).unwrap();
    let lines = log_lines(process.log(), 3);
    assert_eq!(lines[0], "stdin ended: 1");
    let pid = process.pid();
    assert_eq!(lines[1], format!("{pid} {pid}"));
    let open = lines[2].split(' ').map(|path| path.rsplit('/').next().unwrap().parse().unwrap());
    let open: BTreeSet<u32> = open.collect();
    assert_eq!(open.difference(&inherited()).collect::<Vec<_>>(), [&0, &1, &2], "descriptors of the target");
}

/// Descriptors beyond the standard streams that whoever started this test left open for everybody.
fn inherited() -> BTreeSet<u32> {
    const O_CLOEXEC: u32 = 0o2_000_000;
    let stays_open = |fd: &u32| {
        let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let flags = facts.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("2000000");
        u32::from_str_radix(flags.trim(), 8).unwrap() & O_CLOEXEC == 0
    };
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .filter(|fd| *fd > 2 && stays_open(fd))
        .collect()
}

#[test]
fn cpus_padding_environment_and_folder_arrive() {
    let text = "grep Cpus_allowed_list /proc/self/status | tr -d '\\t'
        printf %s \"$WHYSLOW_PADDING\" | wc -c; echo $GREETING; pwd";
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..1024).rev().find(|cpu| allowed.is_set(*cpu)).unwrap();
    let spec = Spec {
        env: [("GREETING".to_owned(), "good day".to_owned())].into(),
        dir: Some("/usr".into()),
        cpus: Some(last.to_string().parse().unwrap()),
        env_padding_bytes: 4001,
        ..script(text)
    };
    let mut process = launcher().start(&spec).unwrap();
    process.wait(Duration::from_secs(10)).unwrap();
    let lines = log_lines(process.log(), 4);
    assert_eq!(lines, [format!("Cpus_allowed_list:{last}"), "4001".into(), "good day".into(), "/usr".into()]);
}

#[test]
fn output_can_be_read_as_it_comes_and_ends_with_the_target() {
    let (mut process, mut talk) =
        launcher().start_talking(&script("read word; echo one; echo aside >&2; echo $word; cat")).unwrap();
    talk.write_all(b"two\nthree\n").unwrap();
    talk.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    BufReader::new(talk).read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\ntwo\nthree\n");
    assert_eq!(process.wait(Duration::from_secs(10)), Some(Exit::Code(0)));
    assert_eq!(log_lines(process.log(), 1), ["aside"]);
}

#[test]
fn what_cannot_be_started_is_said() {
    let start = |spec: &Spec| launcher().start(spec).map(drop).unwrap_err();
    let missing = start(&spec(&["./no-such-program"]));
    assert!(matches!(missing, LaunchError::NoProgram(_)), "{missing}");
    assert_eq!(missing.failure().kind, FailureKind::Start);
    let folder = start(&Spec { dir: Some("/no/such/folder".into()), ..script("exit") });
    assert!(matches!(folder, LaunchError::Start { .. }), "{folder}");
    let cpus = start(&Spec { cpus: Some("8000".parse().unwrap()), ..script("exit") });
    assert!(cpus.to_string().contains("CPU 8000"), "{cpus}");
    let beyond = start(&Spec { cpus: Some("1023".parse().unwrap()), ..script("exit") });
    assert!(beyond.to_string().contains("1023"), "{beyond}");
    let empty = start(&spec(&[]));
    assert!(matches!(empty, LaunchError::NoProgram(_)), "{empty}");
    let log = start(&Spec { log: "/no/such/folder/log".into(), ..script("exit") });
    assert!(matches!(log, LaunchError::File { .. }), "{log}");
}

#[test]
fn a_program_that_the_kernel_refuses_is_said() {
    let path = fresh_log().with_extension("txt");
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = launcher().start(&spec(&[path.to_str().unwrap()])).map(drop).unwrap_err();
    assert!(
        error.to_string().ends_with("cannot be started: No such file or directory (os error 2)"),
        "{error}"
    );
}

#[test]
fn ctrl_c_in_the_parents_group_does_not_reach_the_target() {
    let mut process = launcher().start(&script("exec sleep 60")).unwrap();
    let group = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap().to_owned()
    };
    let ours = group(std::process::id());
    assert_ne!(group(process.pid()), ours);
    assert_ne!(group(process.supervisor_pid()), ours);
    assert_eq!(process.try_exit(), None);
}

#[test]
fn no_privilege_is_needed() {
    let folder = std::env::temp_dir().join(format!("whyslow-launch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let (exe, log) = (folder.join("fixture"), folder.join("log"));
    std::fs::copy(FIXTURE, &exe).unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--no-new-privs",
        ]);
        command.arg(&exe);
        command
    } else {
        Command::new(&exe)
    };
    let status = command.arg("cycle").arg(&log).status().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(status.success(), "{status}");
}
