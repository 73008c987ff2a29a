use super::*;
use crate::facts::functions::{LONGEST_NAME, brief};

fn frame(name: &str) -> Frame {
    const MODULES: [(&str, &str); 3] = [("k:", "[kernel]"), ("j:", "libjvm.so"), ("p:", "php-fpm8.2")];
    let known = MODULES.iter().find_map(|(begin, module)| Some((name.strip_prefix(begin)?, *module)));
    let (bare, module) = known.unwrap_or((name, "server"));
    let (name, resolved) = (bare.to_owned(), !name.starts_with("0x"));
    Frame { name, module: module.to_owned(), kernel: module == "[kernel]", resolved, ..Frame::default() }
}

/// A profile of folded stacks.
fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = Profile { period_ns: 1_000_000, callers: true, ..Profile::default() };
    for (folded, samples) in stacks {
        let mut frames = Vec::new();
        for name in folded.split(';') {
            frames.push(profile.frames.len() as u32);
            profile.frames.push(frame(name));
        }
        profile.samples += samples;
        profile.stacks.push(Stack { frames, samples: *samples });
    }
    profile
}

fn category(folded: &str) -> Category {
    let profile = profile(&[(folded, 1)]);
    category::for_stack(profile.frames_of(&profile.stacks[0]).rev())
}

/// That stacks, folded, are of these kinds of work.
fn assert_told(cases: &[(&str, Category)]) {
    for (folded, expected) in cases {
        assert_eq!(category(folded), *expected, "{folded}");
    }
}

#[test]
fn stacks_in_the_kernel_are_told_by_the_innermost_function_that_is_known() {
    assert_told(&[
        (
            "main;serve;write;k:entry_SYSCALL_64_after_hwframe;k:do_syscall_64;k:ksys_write;k:tcp_sendmsg_locked;k:kmem_cache_alloc",
            Category::NetworkTransmit,
        ),
        (
            "main;write;k:do_syscall_64;k:tcp_sendmsg;k:__do_softirq;k:tcp_v4_rcv;k:sock_def_readable;k:__wake_up;k:try_to_wake_up;k:_raw_spin_lock",
            Category::Scheduler,
        ),
        (
            "main;k:do_syscall_64;k:tcp_sendmsg;k:handle_softirqs;k:tcp_v4_rcv;k:tcp_rcv_established",
            Category::NetworkReceive,
        ),
        ("main;k:entry_SYSCALL_64_after_hwframe;k:do_syscall_64", Category::SyscallEntry),
        (
            "main;httparse::Request::parse;k:asm_exc_page_fault;k:exc_page_fault;k:handle_mm_fault",
            Category::Memory,
        ),
        ("main;httparse::Request::parse;k:something_new", Category::KernelOther),
        (
            "main;tokio::runtime::task::poll;hyper::proto::h1::role::encode_headers;core::slice::copy",
            Category::HeaderWriting,
        ),
        (
            "main;tokio::runtime::task::poll;httparse::Request::parse;__memmove_avx_unaligned_erms",
            Category::Copying,
        ),
        ("start_thread;j:VMThread::run;j:DefNewGeneration::collect;j:OopStack::push", Category::Gc),
        ("main;k:do_syscall_64;k:do_futex;k:futex_wait;k:schedule", Category::Scheduler),
        ("main;k:do_syscall_64;k:ep_poll;k:default_wake_function", Category::Polling),
    ]);
}

#[test]
fn the_type_that_a_function_returns_is_not_its_name() {
    assert_told(&[
        (
            "start;heap::base::SlotCallbackResult v8::internal::Scavenger::EvacuateObject<Slot>(Slot, Map)",
            Category::Gc,
        ),
        ("main;operator new(unsigned long)", Category::Allocation),
        ("main;JS:*time.Now /srv/(app)/malloc.js:1:1", Category::Handler),
        ("main;serve;free", Category::Allocation),
        ("main;json::Freeze push(int)", Category::Handler),
        ("main;StubRoutines (initial stubs)", Category::Handler),
    ]);
}

#[test]
fn stacks_of_the_program_are_told_by_the_innermost_function_that_is_known() {
    assert_told(&[
        ("main;find;__strcasecmp_l_avx2", Category::Comparing),
        ("_PyEval_EvalFrameDefault;_PyMem_DebugCheckAddress", Category::Allocation),
        ("main;handle;calloc;__memset_avx2_unaligned_erms", Category::Allocation),
        (
            "start_thread;j:JavaThread::run;j:C2Compiler::compile_method;j:PhaseChaitin::Split",
            Category::Compiling,
        ),
        ("p:execute_ex;p:compile_file;p:zendparse;p:zend_hash_find", Category::Compiling),
        ("p:execute_ex;p:zif_md5;p:zend_hash_find", Category::Handler),
        ("main;handle;_int_malloc", Category::Allocation),
        ("main.main;net/http.(*conn).serve;runtime.mallocgc", Category::Allocation),
        ("main.main;runtime.mallocgc;runtime.nextFreeFast", Category::Allocation),
        ("serve;log;__strftime_internal", Category::Date),
        ("main.main;runtime.mallocgc;internal/runtime/atomic.(*Uint32).Add", Category::Allocation),
        ("runtime.goexit;runtime.gcBgMarkWorker;runtime.scanobject", Category::Gc),
        (
            "main.page;runtime.mallocgc;runtime.gcAssistAlloc;runtime.scanstack;runtime.(*unwinder).next;runtime.pcvalue",
            Category::Gc,
        ),
        ("main.page;runtime.mallocgc;runtime.gcAssistAlloc;runtime.lock2;runtime.procyield", Category::Gc),
        (
            "main.page;runtime.mallocgc;runtime.mallocgcLarge;runtime.memclrNoHeapPointers",
            Category::Allocation,
        ),
        ("main.page;runtime.callers;runtime.pcvalue", Category::Runtime),
        ("main.page;runtime.growslice;runtime.memmove", Category::Allocation),
        ("main.page;bytes.Clone;runtime.memmove", Category::Copying),
        ("j:Interpreter;j:InterpreterRuntime::monitorenter;j:ObjectMonitor::enter", Category::Lock),
        ("camlCohttp_lwt__handle_12;caml_alloc_small_dispatch;mark_slice_darken.constprop.0", Category::Gc),
        ("Interpreter;akka.stream.impl.fusing.GraphInterpreter.run", Category::Handler),
        ("Interpreter;akka.stream.impl.fusing.GraphInterpreter.run;vtable chunks", Category::Handler),
        ("start_thread;Interpreter", Category::Compiling),
        ("start_thread;serve;__pthread_spin_lock", Category::Lock),
        ("start_thread;serve;acquire;[spinning]", Category::Lock),
        ("start_thread;tokio::runtime::steal;[spinning]", Category::Runtime),
        ("Interpreter;shop.Price.of;j:JVM_IHashCode;j:ObjectSynchronizer::hash", Category::Runtime),
        ("NimMain;dispatch__main_3;rawAlloc__system_4554", Category::Allocation),
        ("main;my_handler", Category::Handler),
        ("start_thread;tokio::runtime::park;hyper::proto::h1::dispatch;shop::price", Category::Handler),
        ("start_thread;hyper::proto::h1::dispatch;shop::price;core::slice::sort", Category::Handler),
        ("start_thread;hyper::proto::h1::dispatch;<core::ptr::drop_in_place as _>", Category::Runtime),
        ("net/http.(*conn).serve;main.handler", Category::Handler),
        ("shop::price;serde_json::to_string;core::fmt::write", Category::Serialisation),
        ("__libc_start_main;main;build_tree;__GI___libc_malloc", Category::Allocation),
        ("__libc_start_main;main;build_tree", Category::Handler),
        ("main;shop::label;<alloc::string::String as core::fmt::Write>::write_str", Category::Handler),
        ("main;shop::seal;ring::aead::seal", Category::Tls),
        ("main;stream_handler", Category::Handler),
        ("llhttp__internal__run;Builtins_JSEntry;Builtins_LoadIC", Category::Handler),
        ("llhttp__internal__run;Builtins_JSEntry;v8::internal::Heap::AllocateRaw", Category::Gc),
        ("net/http.(*conn).serve;main.handler;compress/flate.(*Writer).Write", Category::Serialisation),
        ("main;serve;strtol", Category::Handler),
        ("main;serve;__strcpy_avx2", Category::Copying),
        ("net/http.(*conn).serve;main.handler;strconv.FormatInt", Category::Handler),
        ("net/http.(*conn).serve;strconv.ParseInt", Category::Runtime),
        (
            "net/http.(*conn).serve;main.handler;encoding/json.Marshal;reflect.Value.Field",
            Category::Serialisation,
        ),
        ("0x1234", Category::Handler),
        ("__libc_start_call_main;0x1234;0x5678", Category::Handler),
    ]);
}

#[test]
fn names_in_sentences_are_without_what_only_a_compiler_needs() {
    for (name, expected) in [
        ("malloc", "malloc"),
        ("fill_in_stack_trace(Handle, methodHandle const&, JavaThread*)", "fill_in_stack_trace"),
        ("boolean Planted.handle(java.nio.ByteBuffer)", "boolean Planted.handle"),
        ("void std::sort<Slot*, Less<Pair<int, int> > >(Slot*, Slot*)", "void std::sort<…>"),
        ("<alloc::vec::Vec<u8> as core::ops::Drop>::drop", "<alloc::vec::Vec<…> as core::ops::Drop>::drop"),
        (
            "internal/runtime/atomic.(*Uint32).CompareAndSwap",
            "internal/runtime/atomic.(*Uint32).CompareAndSwap",
        ),
        ("(anonymous namespace)::look(int)", "(anonymous namespace)::look"),
        ("Guard<T>::operator->() const", "Guard<…>::operator->"),
    ] {
        assert_eq!(brief(name), expected);
    }
    assert_eq!(brief(&"é".repeat(70)).chars().count(), LONGEST_NAME);
}

#[test]
fn work_of_a_library_is_told_with_the_function_that_asked_for_it() {
    let under = |more: &[(&str, u64)], word: Category| {
        let plain = ("main;serve;answer;malloc", 100);
        let (from, to) = (profile(&[plain, ("main;serve;read", 100)]), {
            let mut stacks = vec![plain, ("main;serve;read", 100)];
            stacks.extend(more);
            profile(&stacks)
        });
        let cpu_ns = 1000.0 * to.samples as f64;
        let a = ArmProfile { name: "a", profiles: vec![&from], cpu_ns: 200_000.0 };
        let found = difference(&a, &ArmProfile { name: "b", profiles: vec![&to], cpu_ns }).unwrap();
        found.categories.into_iter().find(|row| row.name == word.word()).unwrap().under
    };
    let compiled =
        [("main;serve;look_up;compile;malloc", 300), ("main;serve;look_up;compile;step;malloc", 300)];
    assert_eq!(under(&compiled, Category::Allocation).as_deref(), Some("look_up"));
    // Two who ask for half of it each have in common what is always there.
    let halves = [("main;serve;one;malloc", 300), ("main;serve;other;malloc", 300)];
    assert_eq!(under(&halves, Category::Allocation), None);
    assert_eq!(under(&[], Category::Allocation), None);
    let own = [("main;serve;price", 500)];
    assert_eq!(under(&own, Category::Handler).as_deref(), Some("price"));
}

#[test]
fn packages_are_told_from_names() {
    for (name, expected) in [
        ("tokio::runtime::task::poll", "tokio"),
        ("<hyper::proto::h1::Conn<I> as core::future::Future>::poll", "hyper"),
        ("<&mut serde_json::ser::Serializer<W>>::write", "serde_json"),
        ("net/http.(*conn).serve", "net/http"),
        ("github.com/valyala/fasthttp.(*Server).serveConn", "github.com/valyala/fasthttp"),
        ("runtime.mallocgc", "runtime"),
        ("Ljava/util/HashMap;::getNode", "java.util"),
        ("void java.lang.System.arraycopy(java.lang.Object, int)", "java.lang"),
        ("boolean Planted.handle(java.nio.ByteBuffer)", "Planted"),
        ("memcpy.part.0", "server"),
        ("write<alloc::vec::Vec<u8>>", "server"),
        ("core::str::<impl str>::find", "core"),
        ("std::vector<int>::push_back(int const&)", "std"),
        ("main", "server"),
        ("k:tcp_sendmsg", "[kernel]"),
    ] {
        assert_eq!(package([frame(name)].iter()), expected, "{name}");
    }
}

#[test]
fn a_difference_sums_to_that_of_the_cpu_times_and_has_poisson_errors() {
    let (from, to) = (
        profile(&[("main;a", 700), ("main;b", 300)]),
        profile(&[("main;a", 350), ("main;b", 150), ("main;c", 500)]),
    );
    let of = |name, profile, cpu_ns| ArmProfile { name, profiles: vec![profile], cpu_ns };
    let found = difference(&of("base", &from, 1000.0), &of("arm", &to, 2000.0)).unwrap();
    let sum = |rows: &[ProfileRow]| rows.iter().map(|row| row.difference_ns).sum::<f64>();
    assert!((sum(&found.functions) - 1000.0).abs() < 1e-9 && (sum(&found.categories) - 1000.0).abs() < 1e-9);
    let first = &found.functions[0];
    assert_eq!((first.name.as_str(), first.only_in.as_deref()), ("c", Some("arm")));
    assert!(
        (first.difference_ns - 1000.0).abs() < 1e-9 && (first.error_ns - 2.0 * 500_f64.sqrt()).abs() < 1e-9
    );
    let a = found.functions.iter().find(|row| row.name == "a").unwrap();
    assert!(a.difference_ns.abs() < 1e-9 && a.only_in.is_none());
    assert!((a.error_ns - 700_f64.sqrt().hypot(2.0 * 350_f64.sqrt())).abs() < 1e-9);
    assert_eq!((found.baseline_samples, found.arm_samples), (1000, 1000));
}

#[test]
fn a_profile_alone_sums_to_its_cpu_time_and_none_is_nothing() {
    let one = profile(&[("main;a", 3), ("main;0x12", 1), ("main;0x34", 1)]);
    let found = alone(&ArmProfile { name: "arm", profiles: vec![&one, &one], cpu_ns: 500.0 }).unwrap();
    let rows: Vec<(&str, f64)> = found.functions.iter().map(|row| (row.name.as_str(), row.arm_ns)).collect();
    // What has no name is one row for its module.
    assert_eq!(rows, [("a", 300.0), ("[server]", 200.0)]);
    assert!(alone(&ArmProfile { name: "arm", profiles: Vec::new(), cpu_ns: 500.0 }).is_none());
    let empty = profile(&[]);
    assert!(alone(&ArmProfile { name: "arm", profiles: vec![&empty], cpu_ns: 500.0 }).is_none());
}

#[test]
fn samples_without_the_kernel_divide_user_time() {
    let (user, whole) = (profile(&[("main", 1)]), Profile { kernel: true, ..profile(&[("main", 1)]) });
    assert_eq!(sampled_ns(&[&user, &user], 1000.0, 300.0), Some(300.0));
    assert_eq!(sampled_ns(&[&whole, &whole], 1000.0, 300.0), Some(1000.0));
    assert_eq!(sampled_ns(&[&whole, &user], 1000.0, 300.0), None);
    let of = |profile| ArmProfile { name: "arm", profiles: vec![profile], cpu_ns: 1.0 };
    assert!(difference(&of(&user), &of(&user)).is_some());
    assert!(difference(&of(&user), &of(&whole)).is_none(), "a part cannot be held against the whole");
}

#[test]
fn what_is_inlined_without_a_path_is_of_its_caller() {
    let stack = [frame("write"), frame("tokio::runtime::task::poll"), frame("main::handle")];
    assert_eq!(package(stack.iter()), "tokio");
    let foreign = Frame { module: "libc.so.6".to_owned(), ..frame("write") };
    assert_eq!(package([foreign, frame("tokio::poll")].iter()), "libc.so.6");
}

#[test]
fn a_wait_is_told_of_who_chose_to_wait() {
    let mut waits = profile(&[
        ("main;k:do_syscall_64;k:do_futex;k:futex_wait_queue;k:schedule", 5),
        ("main;k:do_epoll_wait;k:schedule_hrtimeout_range;k:schedule", 4),
        ("main;work;k:schedule;k:[waiting for a CPU]", 3),
    ]);
    waits.kind = ProfileKind::OffCpu;
    let found = alone(&ArmProfile { name: "arm", profiles: vec![&waits], cpu_ns: 12.0 }).unwrap();
    let rows: Vec<(&str, &str)> =
        found.functions.iter().map(|row| (row.name.as_str(), row.category.as_str())).collect();
    let expected =
        [("futex_wait_queue", "locks"), ("do_epoll_wait", "polling"), ("[waiting for a CPU]", "scheduler")];
    assert_eq!(rows, expected);
    // Microseconds were timed, not drawn.
    assert!(found.functions.iter().all(|row| row.error_ns == 0.0));
}
