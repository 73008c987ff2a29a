//! Who called whom in a program in C, however it was built.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use model::record::Profile;

use crate::profile::{sampled, samples_in, samples_with};
use crate::support::Fixture;

pub(crate) const PROGRAM: &str = r#"
#include <unistd.h>
#ifndef WORK
#define WORK outer_work
#endif
static volatile unsigned sink;
__attribute__((noinline)) void inner_work(unsigned n) { for (unsigned i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void middle_work(unsigned n) { inner_work(n); sink++; }
__attribute__((noinline)) void outer_work(unsigned n) { middle_work(n); sink++; }
int main(void) {
    char c;
    if (write(1, "ready\n", 6) < 0 || read(0, &c, 1) < 1) return 1;
    for (int i = 0; i < 200; i++) WORK(1000000);
    if (write(1, "done\n", 5) < 0) return 1;
    return read(0, &c, 1) > 0;
}
"#;

/// A program in C, built with `flags`; nothing, and the reason said, without a compiler.
pub(crate) fn built(name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let stem = std::env::temp_dir().join(format!("observe-{}-{name}", std::process::id()));
    let source = stem.with_extension("c");
    std::fs::write(&source, text).unwrap();
    let status =
        Command::new("cc").args(flags).arg("-o").arg(&stem).arg(&source).stderr(Stdio::null()).status();
    std::fs::remove_file(&source).unwrap();
    if status.is_ok_and(|status| status.success()) {
        return Some(stem);
    }
    testkit::skipped("no C compiler (cc)");
    None
}

pub(crate) fn sampled_program(name: &str, flags: &[&str]) -> Option<Profile> {
    let program = built(name, PROGRAM, flags)?;
    let profile = sampled(Fixture::start(&mut Command::new(&program)));
    std::fs::remove_file(&program).unwrap();
    profile
}

#[test]
fn frame_pointers_show_callers() {
    let Some(profile) = sampled_program("frames", &["-O1", "-fno-omit-frame-pointer"]) else { return };
    let named = |name: &'static str| samples_with(&profile, move |frame| frame.name == name);
    let (outer, inner) = (named("outer_work"), named("inner_work"));
    assert!(
        profile.callers && outer * 100 > inner * 98 && inner * 10 > profile.samples * 9,
        "{}",
        profile.folded()
    );
    assert!(profile.frames.iter().any(|frame| frame.name == "main" && frame.resolved && !frame.kernel));
}

#[test]
fn a_function_that_main_calls_is_not_taken_for_a_program_without_frame_pointers() {
    let flags = ["-O2", "-fno-omit-frame-pointer", "-DWORK=inner_work"];
    let Some(profile) = sampled_program("leaf", &flags) else { return };
    let inner = samples_in(&profile, |frame| frame.name == "inner_work");
    assert!(inner * 10 > profile.samples * 9 && profile.callers, "{}", profile.folded());
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks are copied on x86-64 alone")]
fn without_frame_pointers_callers_are_found_by_the_table_for_exceptions() {
    for (name, flags) in
        [("tables", &["-O1", "-fomit-frame-pointer"][..]), ("tables-stripped", &["-O1", "-s"])]
    {
        let Some(profile) = sampled_program(name, flags) else { return };
        assert!(profile.callers, "{}", profile.folded());
        if name == "tables" {
            let under = |caller: &str| {
                let stacks = profile.stacks.iter().filter(|stack| {
                    let names: Vec<&str> = profile.frames_of(stack).map(|frame| &*frame.name).collect();
                    let at = |name: &str| names.iter().position(|found| *found == name);
                    at(caller).zip(at("inner_work")).is_some_and(|(caller, inner)| caller < inner)
                });
                stacks.map(|stack| stack.samples).sum::<u64>()
            };
            for caller in ["main", "outer_work"] {
                assert!(under(caller) * 10 > profile.samples * 9, "{caller}: {}", profile.folded());
            }
        }
    }
}

#[test]
fn without_frame_pointers_and_tables_the_profile_is_flat_and_says_so() {
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"];
    let Some(profile) = sampled_program("flat", &flags) else { return };
    let inner = samples_in(&profile, |frame| frame.name == "inner_work");
    assert!(inner * 10 > profile.samples * 9, "{}", profile.folded());
    assert!(!profile.callers, "{}", profile.folded());
    assert!(profile.notes.iter().any(|note| note.contains("frame pointers")), "{:?}", profile.notes);
}

#[test]
fn a_stripped_program_gives_its_module_and_a_hint() {
    let Some(profile) = sampled_program("stripped", &["-O1", "-s", "-fno-omit-frame-pointer"]) else {
        return;
    };
    let inside = samples_in(&profile, |frame| !frame.resolved && frame.module.contains("stripped"));
    assert!(inside * 10 > profile.samples * 9, "{}", profile.folded());
    let has_places = |note: &String| note.contains("no symbols") && note.contains("(at 0x");
    assert!(profile.notes.iter().any(has_places), "{:?}", profile.notes);
}
