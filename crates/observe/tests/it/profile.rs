//! Programs that spend their time in known places are sampled, and that is where it is found.

mod interpreted;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::record::{ENDED, Frame, Profile, ProfileKind, SPINNING};
use observe::{Group, ObserveError, OwnCpus, Profiler};

use crate::callers::{PROGRAM, sampled_program};
use crate::support::Fixture;

const HZ: u32 = 997;

/// Samples a program from before its work until after it; nothing, and the reason said, where that is not allowed.
pub(crate) fn sampled(fixture: Fixture) -> Option<Profile> {
    let group = Group::from_pid(fixture.pid()).unwrap();
    watched(fixture, Profiler::attach(&group, HZ, &OwnCpus::default()))
}

fn watched(mut fixture: Fixture, attached: Result<Profiler, ObserveError>) -> Option<Profile> {
    let mut profiler = match attached {
        Ok(profiler) => profiler,
        Err(error) => {
            testkit::skipped(&format!("{error}"));
            return None;
        }
    };
    profiler.begin();
    fixture.work();
    Some(profiler.stop().resolve(&[]))
}

/// Samples whose stack has a function that `fits`.
pub(crate) fn samples_with(profile: &Profile, fits: impl Fn(&Frame) -> bool) -> u64 {
    let has = |stack: &&model::record::Stack| profile.frames_of(stack).any(&fits);
    profile.stacks.iter().filter(has).map(|stack| stack.samples).sum()
}

/// Samples taken in a function that `fits` itself.
pub(crate) fn samples_in(profile: &Profile, fits: impl Fn(&Frame) -> bool) -> u64 {
    let inside = |stack: &&model::record::Stack| profile.frames_of(stack).next_back().is_some_and(&fits);
    profile.stacks.iter().filter(inside).map(|stack| stack.samples).sum()
}

/// Keeps the fixture, and what it begins, on the CPU with this number; whether that is allowed.
fn keep_on(fixture: &Fixture, cpu: usize) -> bool {
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    let pid = rustix::process::Pid::from_raw(i32::try_from(fixture.pid()).unwrap());
    rustix::thread::sched_setaffinity(pid, &one).is_ok()
}

#[test]
fn on_a_servers_own_cpus_all_that_is_of_it_is_sampled_and_nothing_else() {
    // A child, threads that live shorter than the step between two samples, and who has nothing to do with it.
    for role in [&["child", "300"][..], &["short-threads", "400", "1"]] {
        let (mut fixture, mut other) = (Fixture::new(role), Fixture::new(&["spin", "300"]));
        if !keep_on(&fixture, 0) || !keep_on(&other, 0) {
            return;
        }
        let group = Group::from_pid(fixture.pid()).unwrap();
        let own = OwnCpus { cpus: "0".parse().unwrap(), ..OwnCpus::default() };
        let Ok(mut profiler) = Profiler::attach(&group, HZ, &own) else { return };
        let before = group.snapshot().unwrap();
        profiler.begin();
        std::thread::scope(|scope| {
            scope.spawn(|| other.work());
            fixture.work();
        });
        let used_ns = group.snapshot().unwrap().since(&before).cpu.total_ns as f64;
        let profile = profiler.stop().resolve(&[]);
        if !profile.kernel {
            return;
        }
        let expected = used_ns / profile.period_ns as f64;
        let off = (profile.samples as f64 - expected).abs();
        assert!(off < 0.1 * expected + 4.5 * expected.sqrt(), "{role:?}: {} of {expected}", profile.samples);
    }
}

#[test]
fn shares_of_two_functions_are_found_within_their_errors() {
    let Some(profile) = sampled(Fixture::new(&["mix", "70", "2000"])) else { return };
    // An interrupt that happens in a function is time of that function.
    let of = |name: &str| samples_with(&profile, |frame| frame.name.contains(name)) as f64;
    let (major, minor) = (of("major_share"), of("minor_share"));
    let found = major + minor;
    let error = (0.7 * 0.3 / found).sqrt();
    assert!((major / found - 0.7).abs() < 4.5 * error, "{major} of {found}, one error is {error}");
    // Two seconds of CPU time at 997 Hz, two percent of it elsewhere at most.
    let expected = 2.0 * f64::from(HZ);
    assert!((found - expected).abs() < 0.02 * expected + 4.5 * expected.sqrt(), "{found} of {expected}");
    assert!(profile.samples as f64 >= found && profile.lost == 0, "{profile:?}");
    assert_eq!(profile.folded().lines().count(), profile.stacks.len());
}

/// A CPU that this process may use.
fn a_cpu() -> String {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..1024).find(|cpu| allowed.is_set(*cpu)).unwrap().to_string()
}

#[test]
fn a_thread_that_begins_others_all_the_time_is_sampled_as_any() {
    let Some(profile) = sampled(Fixture::new(&["spin-between-threads-on", &a_cpu(), "500"])) else { return };
    // Half a second at 997 Hz; by rights none would be missing, and with exchanged events hardly one was there.
    assert!(profile.samples > 400, "{} samples", profile.samples);
}

#[test]
fn who_waits_in_a_loop_is_told_from_who_works_in_one() {
    let Some(profile) = sampled(Fixture::new(&["spin-lock", "500"])) else { return };
    let spinning = samples_in(&profile, |frame| frame.name == SPINNING);
    // One of two threads waits; without a CPU of its own it is kept from waiting now and then.
    assert!(
        spinning * 4 > profile.samples && spinning * 4 < 3 * profile.samples,
        "{spinning}: {}",
        profile.folded()
    );
    let Some(busy) = sampled(Fixture::new(&["spin", "300"])) else { return };
    assert_eq!(samples_in(&busy, |frame| frame.name == SPINNING), 0, "{}", busy.folded());
}

#[test]
fn time_in_the_kernel_is_found_there() {
    let Some(profile) = sampled(Fixture::new(&["system", "1000"])) else { return };
    if !profile.kernel {
        testkit::skipped(&format!("{:?}", profile.notes));
        return;
    }
    let inside = samples_in(&profile, |frame| frame.kernel);
    assert!(inside * 10 > profile.samples * 9, "{inside} of {}", profile.samples);
    if profile.kernel_symbols {
        let reading = samples_with(&profile, |frame| frame.kernel && frame.name.contains("read"));
        // It also looks at the clock, where a virtual machine takes what interrupts were held back.
        assert!(reading * 10 > profile.samples * 8, "{reading} of {}: {}", profile.samples, profile.folded());
    }
}

#[test]
fn threads_and_processes_that_begin_later_are_sampled_too() {
    let hz = u64::from(HZ);
    for (role, ms) in [(&["short-threads", "7", "50"][..], 350), (&["child", "500"][..], 500)] {
        let Some(profile) = sampled(Fixture::new(role)) else { return };
        let expected = hz * ms / 1000;
        assert!(
            profile.samples.abs_diff(expected) * 10 < expected,
            "{role:?}: {} of {expected}",
            profile.samples
        );
        // The child has ended by now, and is told by what it called itself.
        let by_name = samples_in(&profile, |frame| frame.module == ENDED && frame.name == "observe-fixture");
        let of_child = if role[0] == "child" { expected * 8 / 10 } else { 0 };
        assert!(by_name >= of_child, "{role:?}: {by_name} of {expected}: {}", profile.folded());
    }
}

#[test]
fn a_sleeper_has_no_samples_worth_telling() {
    let Some(profile) = sampled(Fixture::new(&["sleep", "100"])) else { return };
    assert!(profile.samples < 50, "{}", profile.folded());
}

/// The innermost function with the most samples.
fn hottest(profile: &Profile) -> Frame {
    let mut own: std::collections::BTreeMap<(&str, &str), (u64, &Frame)> = Default::default();
    for stack in &profile.stacks {
        let Some(frame) = profile.frames_of(stack).next_back() else { continue };
        own.entry((&frame.name, &frame.module)).or_insert((0, frame)).0 += stack.samples;
    }
    own.into_values().max_by_key(|(samples, _)| *samples).expect("there are samples").1.clone()
}

/// The line of the first text that contains `part`, from 1.
fn line_of(text: &str, part: &str) -> Option<u32> {
    let line = text.lines().position(|line| line.contains(part)).expect("the text has it");
    u32::try_from(line + 1).ok()
}

fn is_in(frame: &Frame, file: &str) -> bool {
    frame.file.as_ref().is_some_and(|path| path.ends_with(file))
}

#[test]
fn functions_of_c_have_the_line_that_ran_and_the_one_that_called() {
    let Some(profile) = sampled_program("lines", &["-O1", "-g", "-fno-omit-frame-pointer"]) else { return };
    let hot = hottest(&profile);
    assert_eq!((&*hot.name, hot.line), ("inner_work", line_of(PROGRAM, "inner_work(")), "{hot:?}");
    assert!(is_in(&hot, "lines.c"), "{hot:?}");
    let caller = profile.frames.iter().find(|frame| frame.name == "main").unwrap();
    assert_eq!(caller.line, line_of(PROGRAM, "WORK(1000000)"), "{caller:?}");
}

#[test]
fn functions_of_rust_have_the_line_that_ran() {
    let Some(profile) = sampled(Fixture::new(&["mix", "90", "400"])) else { return };
    let text = include_str!("../../fixture/main.rs");
    let hot = hottest(&profile);
    let begin = line_of(text, "fn major_share").unwrap();
    let fits = hot.line.is_some_and(|line| (begin..begin + 7).contains(&line));
    assert!(hot.name.ends_with("major_share") && fits && is_in(&hot, "fixture/main.rs"), "{hot:?}");
}

/// Samples a server that speaks as the fixture does and answers HTTP on the port that is its last argument, while it is
/// asked all the time; nothing, and the reason said, where its runtime is not installed.
fn sampled_server(runtime: &[&str], name: &str, text: &str, env: &[(&str, &str)]) -> Option<Profile> {
    let (program, args) = runtime.split_first().unwrap();
    if !Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success()) {
        testkit::skipped(&format!("{program} is not installed"));
        return None;
    }
    let file = std::env::temp_dir().join(format!("observe-{}-{name}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut command = Command::new(program);
    command.args(args).arg(&file).arg(port.to_string()).envs(env.iter().copied());
    let fixture = Fixture::start(&mut command);
    let map = format!("/tmp/perf-{}.map", fixture.pid());
    let done = AtomicBool::new(false);
    let profile = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                ask(port);
            }
        });
        let profile = sampled(fixture);
        done.store(true, Ordering::Relaxed);
        profile
    });
    std::fs::remove_file(&file).unwrap();
    let _ = std::fs::remove_file(map);
    profile
}

/// One request on a connection of its own; a server that ends meanwhile answers nobody.
fn ask(port: u16) {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        std::thread::sleep(Duration::from_millis(5));
        return;
    };
    let _ = stream.write_all(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let _ = stream.read_to_end(&mut Vec::new());
}

const NODE: &str = r#"
function hotFunction(n) {
  let x = 0;
  for (let i = 0; i < n; i++) x = (x * 31 + i) % 1000003;
  return x;
}
const server = require("http").createServer((request, response) => response.end(`${hotFunction(100000)}`));
server.listen(Number(process.argv[2]), "127.0.0.1", () => process.stdout.write("ready\n"));
process.stdin.once("data", () => {
  setTimeout(() => process.stdout.write("done\n"), 1500);
  process.stdin.on("data", () => {});
});
"#;

#[test]
fn functions_of_a_server_of_node_have_their_name_file_and_line() {
    let env = [("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack")];
    let Some(profile) = sampled_server(&["node"], "hot.js", NODE, &env) else { return };
    let hot = hottest(&profile);
    assert_eq!((&*hot.name, hot.line), ("hotFunction", line_of(NODE, "hotFunction(")), "{hot:?}");
    assert!(is_in(&hot, "hot.js") && hot.resolved, "{hot:?}");
}

const GO: &str = r#"package main

import "os"

//go:noinline
func hotFunction(n int) (x int) {
	for i := 0; i < n; i++ {
		x = (x*31 + i) % 1000003
	}
	return x
}

func main() {
	os.Stdout.WriteString("ready\n")
	os.Stdin.Read(make([]byte, 1))
	for i := 0; i < 3000; i++ {
		hotFunction(100000)
	}
	os.Stdout.WriteString("done\n")
	os.Stdin.Read(make([]byte, 1))
}
"#;

#[test]
fn functions_of_go_have_their_line() {
    functions_of_go_built_with("lines", &[]);
}

#[test]
fn functions_of_go_without_symbols_have_it_too() {
    functions_of_go_built_with("stripped", &["-ldflags=-s -w"]);
}

fn functions_of_go_built_with(name: &str, flags: &[&str]) {
    let stem = std::env::temp_dir().join(format!("observe-{}-go-{name}", std::process::id()));
    let source = stem.with_extension("go");
    std::fs::write(&source, GO).unwrap();
    let built = Command::new("go").arg("build").args(flags).arg("-o").arg(&stem).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        testkit::skipped("go is not installed");
        return;
    }
    let profile = sampled(Fixture::start(&mut Command::new(&stem)));
    for file in [&stem, &source] {
        std::fs::remove_file(file).unwrap();
    }
    let Some(profile) = profile else { return };
    let hot = hottest(&profile);
    let begin = line_of(GO, "func hotFunction").unwrap();
    let fits = hot.line.is_some_and(|line| (begin..begin + 4).contains(&line));
    assert!(hot.name == "main.hotFunction" && fits && is_in(&hot, ".go"), "{hot:?}");
}

/// Compiled code of `caller` has `hotFunction` within it.
const JAVA: &str = r#"
public class Work {
    private static int hotFunction(int n) {
        int x = 0;
        for (int i = 0; i < n; i++) {
            x = (x * 31 + i) % 1000003;
        }
        return x;
    }

    private static int caller(int n) {
        return hotFunction(n) + 1;
    }

    private static int during(long ns) {
        int x = 0;
        for (long begin = System.nanoTime(); System.nanoTime() - begin < ns; ) {
            x += caller(1000);
        }
        return x;
    }

    public static void main(String[] args) throws Exception {
        int x = during(500_000_000);
        System.out.print("ready\n");
        System.out.flush();
        System.in.read();
        x += during(1_500_000_000);
        System.out.print("done\n");
        System.out.flush();
        System.in.read();
        System.exit(x == 7 ? 1 : 0);
    }
}
"#;

#[test]
fn functions_of_java_have_their_line_where_they_are_inlined_too() {
    let options = ["-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"];
    let runtime = [&["java"][..], &options].concat();
    let Some(profile) = sampled_server(&runtime, "hot.java", JAVA, &[]) else { return };
    let hot = hottest(&profile);
    let begin = line_of(JAVA, "int hotFunction").unwrap();
    let fits = hot.line.is_some_and(|line| (begin + 2..begin + 4).contains(&line));
    assert!(hot.name == "Work.hotFunction" && fits && is_in(&hot, "hot.java"), "{hot:?}");
    let call = line_of(JAVA, "return hotFunction");
    let calls = samples_with(&profile, |frame| frame.name == "Work.caller" && frame.line == call);
    assert!(calls * 4 > profile.samples * 3, "{calls} of {}: {}", profile.samples, profile.folded());
}

fn off_cpu(role: &[&str]) -> Option<Profile> {
    let fixture = Fixture::new(role);
    let group = Group::from_pid(fixture.pid()).unwrap();
    watched(fixture, Profiler::attach_off_cpu(&group))
}

/// Half of the time is called a stall: what was met in it is told apart, of samples and of waits.
#[test]
fn what_was_met_during_a_stall_is_told_apart() {
    let seen = |role: &[&str], attach: fn(&Group) -> Result<Profiler, ObserveError>| {
        let mut fixture = Fixture::new(role);
        let mut profiler = attach(&Group::from_pid(fixture.pid()).unwrap()).ok()?;
        profiler.begin();
        let begin = monotonic_ns();
        fixture.work();
        let end = monotonic_ns();
        let samples = profiler.stop();
        Some(samples.resolve(&[[begin, begin + (end - begin) / 2]]))
    };
    let half = |profile: &Profile| {
        let stalled: u64 = profile.stalled.iter().map(|stack| stack.samples).sum();
        stalled as f64 / profile.samples as f64
    };
    let cpu = seen(&["spin", "400"], |group| Profiler::attach(group, 997, &OwnCpus::default()));
    let waits = seen(&["sleep", "1000"], Profiler::attach_off_cpu);
    for profile in cpu.iter().chain(&waits).filter(|profile| profile.samples > 0) {
        assert!((0.4..0.6).contains(&half(profile)), "{}", half(profile));
        assert_eq!(profile.stalls_ns.len(), 1);
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What an ordinary user may do: this thread's capabilities are put away while `work` runs.
fn without_capabilities<T>(work: impl FnOnce() -> T) -> T {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    let all = capabilities(None).unwrap();
    set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..all }).unwrap();
    let result = work();
    set_capabilities(None, all).unwrap();
    result
}

/// A switch happens in the kernel: an event that leaves it out would see none, and the profile say that nothing waits.
#[test]
fn waits_are_refused_where_the_kernel_may_not_be_sampled() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim() != "2" {
        testkit::skipped(&format!("kernel.perf_event_paranoid is {paranoid}"));
        return;
    }
    let fixture = Fixture::new(&["sleep", "1"]);
    let group = Group::from_pid(fixture.pid()).unwrap();
    let waits = without_capabilities(|| Profiler::attach_off_cpu(&group));
    let Err(ObserveError::Sampling { source, .. }) = waits else { panic!("{waits:?}") };
    // By the kernel's rule for its own samples, and not for want of locked memory, which is EPERM.
    assert_eq!(source.raw_os_error(), Some(libc::EACCES), "{source}");
}

#[test]
fn sleeps_are_time_without_a_cpu() {
    // 400 sleeps of 200 µs, each a little longer for the timer's slack (50 µs) and the way back.
    let Some(profile) = off_cpu(&["sleep", "400"]) else { return };
    assert_eq!((profile.kind, profile.period_ns), (ProfileKind::OffCpu, 1000));
    let slept = if profile.kernel_symbols {
        samples_with(&profile, |frame| frame.kernel && frame.name.contains("nanosleep"))
    } else {
        profile.samples
    };
    assert!((80_000..400_000).contains(&slept), "{slept} µs: {}", profile.folded());
}

#[test]
fn threads_that_share_a_cpu_wait_in_the_run_queue() {
    let Some(profile) = off_cpu(&["spin-twice-on", &a_cpu(), "300"]) else { return };
    let waited = samples_in(&profile, |frame| frame.name == "[waiting for a CPU]");
    // While one of the two ran its 300 ms, the other waited, until the last one had the CPU for itself.
    assert!(waited > 200_000, "{waited} µs: {}", profile.folded());
}
