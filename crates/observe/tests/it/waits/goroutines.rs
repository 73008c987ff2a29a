//! Goroutines that wait are counted, each in its function and line.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use model::record::{Goroutines, ParkedLeaf, Waits, WaitsFor};

use super::{INSIDE, address, watched};
use crate::support::Fixture;

/// A server beside whose requests goroutines wait all the time: five of six for a lock that the other one holds while it sleeps, three for
/// a channel, one for one of two, and two for a time. It answers each request after ten milliseconds.
const SERVER: &str = r#"package main

import (
	"net"
	"os"
	"sync"
	"time"
)

var lock sync.Mutex
var never = make(chan bool)
var neither = make(chan bool)
var over = make(chan bool)

//go:noinline
func slowLock() {
	lock.Lock()
	time.Sleep(4 * time.Millisecond)
	lock.Unlock()
}

//go:noinline
func slowChannel() {
	<-never
}

//go:noinline
func slowSelect() {
	select {
	case <-never:
	case <-neither:
	}
}

//go:noinline
func slowSleep() {
	time.Sleep(time.Hour)
}

func serves(listener net.Listener) {
	client, _ := listener.Accept()
	for read := make([]byte, 1); ; client.Write([]byte(".")) {
		if count, _ := client.Read(read); count == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	over <- true
}

func main() {
	listener, _ := net.Listen("tcp", os.Args[len(os.Args)-1])
	for range [6]int{} {
		go func() {
			for {
				slowLock()
			}
		}()
	}
	for range [3]int{} {
		go slowChannel()
	}
	go slowSelect()
	for range [2]int{} {
		go slowSleep()
	}
	go serves(listener)
	os.Stdout.WriteString("ready\n")
	os.Stdin.Read(make([]byte, 1))
	<-over
	os.Stdout.WriteString("done\n")
	os.Stdin.Read(make([]byte, 1))
}
"#;

/// The line of the program in which this is written first.
fn line_of(text: &str) -> Option<u32> {
    SERVER.lines().position(|line| line.contains(text)).map(|line| line as u32 + 1)
}

/// The program, built with these flags; nothing, and the reason said, where it cannot be.
fn built(flags: &[&str]) -> Option<PathBuf> {
    let stem =
        std::env::temp_dir().join(format!("observe-goroutines-{}", address().replace(['.', ':'], "-")));
    let source = stem.with_extension("go");
    std::fs::write(&source, SERVER).unwrap();
    let built = Command::new("go").arg("build").args(flags).arg("-o").arg(&stem).arg(&source).status();
    std::fs::remove_file(&source).unwrap();
    if built.is_ok_and(|status| status.success()) {
        return Some(stem);
    }
    testkit::skipped("go is not installed, or does not build so");
    None
}

/// What was seen of the program while it served, begun by these words.
fn seen(flags: &[&str], before: &[&str]) -> Option<Waits> {
    let program = built(flags)?;
    let address = address();
    let words: Vec<&str> = before.iter().copied().chain([program.to_str().unwrap(), &address]).collect();
    let may_begin = before.is_empty()
        || Command::new(before[0])
            .args(&before[1..])
            .arg("true")
            .status()
            .is_ok_and(|status| status.success());
    let waits = if may_begin {
        watched(Fixture::start(Command::new(words[0]).args(&words[1..])), &address, Duration::ZERO)
    } else {
        testkit::skipped(&format!("{} may not begin a program here", before[0]));
        None
    };
    std::fs::remove_file(&program).unwrap();
    waits
}

/// How many goroutines wait at a time for this in a function, in the line that has this text.
fn at_a_time(waits: &Waits, waits_for: WaitsFor, function: &str, text: &str) -> f64 {
    let [goroutines] = &waits.goroutines[..] else { panic!("{:?}", waits.goroutines) };
    let is_there = |leaf: &&ParkedLeaf| {
        waits.frames_of(&leaf.waited_in).any(|frame| {
            let is_of_program = frame.file.as_ref().is_some_and(|file| file.ends_with(".go"));
            frame.name == function && frame.line == line_of(text) && is_of_program
        })
    };
    let these = goroutines.leaves.iter().filter(|leaf| leaf.waits_for == waits_for).filter(is_there);
    these.map(|leaf| leaf.count).sum::<u64>() as f64 / goroutines.readings.max(1) as f64
}

/// The leaves as lines.
fn table(waits: &Waits) -> String {
    let line = |leaf: &ParkedLeaf| {
        let at = |frame: &model::record::Frame| format!("{}:{}", frame.name, frame.line.unwrap_or(0));
        let stack: Vec<String> = waits.frames_of(&leaf.waited_in).map(at).collect();
        format!("{:?} {} {}\n", leaf.waits_for, leaf.count, stack.join(" "))
    };
    let of_process = |one: &Goroutines| {
        format!("{} readings\n", one.readings) + &one.leaves.iter().map(line).collect::<String>()
    };
    waits.goroutines.iter().map(of_process).collect()
}

fn each_is_where_it_waits(flags: &[&str], before: &[&str]) {
    let Some(waits) = seen(flags, before) else { return };
    let told = table(&waits);
    let readings = waits.goroutines.iter().map(|one| one.readings).sum::<u64>();
    assert!(readings >= 20, "{told}");
    // They are read one after the other: a lock that changes hands meanwhile may count one of them twice, or none.
    for (waits_for, function, text, fewest, most) in [
        (WaitsFor::Lock, "main.slowLock", "lock.Lock()", 4.0, 5.5),
        (WaitsFor::Sleep, "main.slowLock", "4 * time.Millisecond", 0.3, 1.5),
        (WaitsFor::Channel, "main.slowChannel", "<-never", 3.0, 3.0),
        (WaitsFor::Select, "main.slowSelect", "select {", 1.0, 1.0),
        (WaitsFor::Sleep, "main.slowSleep", "time.Hour", 2.0, 2.0),
        (WaitsFor::Sleep, "main.serves", "10 * time", 0.5, 1.0),
        // The one that begins the program waits for its end.
        (WaitsFor::Channel, "main.main", "\t<-over", 0.7, 1.0),
    ] {
        let found = at_a_time(&waits, waits_for, function, text);
        assert!((fewest..=most).contains(&found), "{function}, {waits_for:?}: {found}\n{told}");
    }
    // Who waits for the network is told apart, and the runtime's own are not among them.
    let (network, others): (Vec<&ParkedLeaf>, Vec<&ParkedLeaf>) =
        waits.goroutines[0].leaves.iter().partition(|leaf| leaf.waits_for == WaitsFor::Network);
    let is_polled = |leaf: &&ParkedLeaf| {
        waits.frames_of(&leaf.waited_in).any(|frame| frame.name == "runtime.netpollblock")
    };
    assert!(network.iter().all(is_polled), "{told}");
    let all: u64 = others.iter().map(|leaf| leaf.count).sum();
    assert!(all as f64 <= 16.0 * readings as f64 && !others.iter().any(is_polled), "{told}");
    assert!(!told.contains("bgsweep"), "{told}");
    assert_eq!(waits.missing, Vec::<String>::new());
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "goroutines are read on x86-64 alone")]
fn goroutines_that_wait_are_in_their_functions_and_lines() {
    each_is_where_it_waits(&[], &[]);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "goroutines are read on x86-64 alone")]
fn goroutines_of_a_program_that_is_loaded_anywhere_are_so_too() {
    each_is_where_it_waits(&["-buildmode=pie"], &[]);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "goroutines are read on x86-64 alone")]
fn goroutines_of_a_program_without_symbols_are_so_too() {
    each_is_where_it_waits(&["-ldflags=-s -w"], &[]);
    each_is_where_it_waits(&["-buildmode=pie", "-ldflags=-s -w"], &[]);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "goroutines are read on x86-64 alone")]
fn goroutines_in_a_container_are_so_too() {
    each_is_where_it_waits(&[], &INSIDE);
}
