//! What kind of work a stack does, from a table of function names.

use std::cell::RefCell;
use std::collections::HashMap;

use model::record::{Frame, PHP, SPINNING, is_interpreted};

use crate::facts::functions::{as_called, called, is_of_rust, is_of_standard_library, is_task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Sending, down to the other side's queue where that is on this host.
    NetworkTransmit,
    /// Receiving.
    NetworkReceive,
    /// Asking which connections are ready.
    Polling,
    /// Getting into the kernel and out.
    SyscallEntry,
    /// Waking, switching, sleeping, timer ticks.
    Scheduler,
    /// Waiting for other threads.
    Lock,
    /// Files, pipes and disks.
    File,
    /// Page faults and mappings.
    Memory,
    /// Allocating and freeing in the program.
    Allocation,
    /// Reading request heads.
    HeadParsing,
    /// Writing response heads.
    HeaderWriting,
    /// Clocks and dates.
    Date,
    /// Encryption.
    Tls,
    /// Turning values into bytes and back, and bytes into fewer.
    Serialisation,
    /// Executors, event loops and server libraries.
    Runtime,
    /// Garbage collection.
    Gc,
    /// Compiling while the program runs, and interpreting what is not yet compiled.
    Compiling,
    /// Copying, clearing and measuring bytes.
    Copying,
    /// Comparing strings and bytes, as a search through a list does.
    Comparing,
    /// All other code of the program: what the handler does is in here.
    Handler,
    /// All other code of the kernel.
    KernelOther,
}

impl Category {
    /// The name in every output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NetworkTransmit => "network transmit",
            Self::NetworkReceive => "network receive",
            Self::Polling => "polling",
            Self::SyscallEntry => "system call entry",
            Self::Scheduler => "scheduler",
            Self::Lock => "locks",
            Self::File => "files",
            Self::Memory => "memory of the kernel",
            Self::Allocation => "allocation",
            Self::HeadParsing => "head parsing",
            Self::HeaderWriting => "header writing",
            Self::Date => "clocks and dates",
            Self::Tls => "TLS",
            Self::Serialisation => "serialisation and compression",
            Self::Runtime => "runtime and server library",
            Self::Gc => "garbage collection",
            Self::Compiling => "compiling at run time",
            Self::Copying => "copying",
            Self::Comparing => "comparing",
            Self::Handler => "own code",
            Self::KernelOther => "other kernel work",
        }
    }
}

/// The kind of work of a stack, innermost frame first: that of the first function that the tables know. The program's own
/// code stays its own although a server library calls it; where that waits in a loop, it waits for another thread.
pub(crate) fn for_stack<'a>(frames: impl Iterator<Item = &'a Frame>) -> Category {
    let mut frames = frames.peekable();
    let spins = frames.next_if(|frame| frame.name == SPINNING).is_some();
    match of_functions(frames) {
        Category::Handler if spins => Category::Lock,
        category => category,
    }
}

fn of_functions<'a>(frames: impl Iterator<Item = &'a Frame>) -> Category {
    let (mut kernel, mut own) = (false, false);
    // What the innermost functions of a runtime do, as long as it is not known whom they do it for.
    let mut machine = None;
    let mut frames = frames.peekable();
    while let Some(frame) = frames.next() {
        kernel |= frame.kernel;
        // A frame of the program above one of the kernel asked for something that the kernel's own table did not know.
        if kernel && !frame.kernel {
            break;
        }
        match known(frame) {
            Some(Category::Gc) if !own => return Category::Gc,
            Some(Category::Compiling) if machine == Some(Category::Runtime) || is_of_php(frame) => {
                return Category::Compiling;
            }
            // An allocator that clears, moves or marks its blocks does so for itself.
            Some(Category::Copying) if !own && frames.peek().is_some_and(|next| allocates(next)) => {
                machine.get_or_insert(Category::Allocation);
            }
            // A collector uses much of its runtime, and much of that has names that nobody lists: whom it works for tells.
            Some(works) if !own && is_of_machine_itself(frame) => {
                machine.get_or_insert(works);
            }
            _ if let Some(works) = machine => return works,
            // What an interpreter or a server library calls is the program's.
            Some(Category::Runtime | Category::Gc | Category::Compiling) if own => return Category::Handler,
            Some(category) => return category,
            None => own |= !frame.kernel && !belongs_to_all(frame),
        }
    }
    if let Some(works) = machine {
        return works;
    }
    if kernel { Category::KernelOther } else { Category::Handler }
}

/// Whether a function is of PHP itself, whose compiler calls no code of programs.
fn is_of_php(frame: &Frame) -> bool {
    ["php", "libphp"].iter().any(|begin| frame.module.starts_with(begin))
}

fn allocates(frame: &Frame) -> bool {
    known(frame) == Some(Category::Allocation)
}

/// The library of Java's virtual machine.
const VIRTUAL_MACHINE: &str = "libjvm";
/// How the functions of Go's runtime begin.
const GO_RUNTIME: [&str; 2] = ["runtime.", "internal/runtime/"];

/// Whether a function is of a runtime that has a collector of its own.
fn is_of_machine_itself(frame: &Frame) -> bool {
    frame.module.starts_with(VIRTUAL_MACHINE) || GO_RUNTIME.iter().any(|begin| frame.name.starts_with(begin))
}

/// Whether a function is of a standard library: what it does, it does for its caller. So does code that has no name and no
/// file, which may be anyone's; what has no name in the file of a program is its own.
fn belongs_to_all(frame: &Frame) -> bool {
    // Linked into Node: V8, Node itself, and the library for languages and dates.
    const LINKED: [&str; 4] = ["v8::", "node::", "Builtins_", "icu_"];
    const BEGINNINGS: [&str; 26] = [
        "core::",
        "std::",
        "alloc::",
        "internal/",
        "bytes.",
        "errors.",
        "fmt.",
        "io.",
        "maps.",
        "math/",
        "reflect.",
        "slices.",
        "sort.",
        "strconv.",
        "strings.",
        "unicode/",
        "unique.",
        "java.",
        "jdk.",
        "sun.",
        "com.sun.",
        "kotlin.",
        "scala.",
        "vtable ",
        "itable ",
        "StubRoutines",
    ];
    const MODULES: [&str; 6] = ["libc.", "libc-", "ld-", "libstdc++", "libnio.", "libnet."];
    let name = called(&frame.name).trim_start_matches(['<', '&', '*', '(', '[']);
    // `{virtual override thunk({offset(-56)}, NAME)}`.
    let goes_to = frame
        .name
        .split_once("thunk({")
        .map_or(frame.name.as_str(), |(_, rest)| rest.split_once("}, ").map_or(rest, |(_, name)| name));
    !frame.resolved && (frame.module.is_empty() || frame.module.starts_with('['))
        || frame.file.as_ref().is_some_and(|file| is_of_rust(file))
        || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        || LINKED.iter().any(|begin| goes_to.starts_with(begin) || name.starts_with(begin))
        || MODULES.iter().any(|begin| frame.module.starts_with(begin)) && !is_task(frame)
}

/// Whether a function does what it does for whoever asks: that of a language's own library or runtime, and what allocates,
/// copies, compares, locks or reads the clock.
pub(crate) fn serves_anyone(frame: &Frame) -> bool {
    use Category::{Allocation, Comparing, Compiling, Copying, Date, Gc, Lock, SyscallEntry};
    const RUNTIMES: [&str; 4] = ["libjvm", "libpython", "libnode", "libruby"];
    let kind = known(frame);
    matches!(kind, Some(Allocation | Comparing | Compiling | Copying | Date | Gc | Lock | SyscallEntry))
        || belongs_to_all(frame)
        || is_of_go(&frame.name)
        || frame.name == SPINNING
        || RUNTIMES.iter().any(|begin| frame.module.starts_with(begin))
        || frame.file.as_ref().is_some_and(|file| is_of_standard_library(file))
        // What of PHP has no file is PHP's own.
        || frame.module == PHP && frame.file.is_none()
}

/// Whether a function may be the reason for work: those of standard libraries, runtimes and allocators do what they are asked to.
pub(crate) fn asks_for_work(frame: &Frame) -> bool {
    let is_library = || frame.file.as_ref().is_none_or(|file| is_of_standard_library(file));
    is_script(frame) && !is_library()
        || is_built_in(frame)
        || known(frame).is_none() && (is_of_go(&frame.name) || is_own(frame) && !serves_anyone(frame))
}

/// Whether a function is one that V8 has for JavaScript, and that programs call by its name: `Date.prototype.toLocaleDateString`.
pub(crate) fn is_built_in(frame: &Frame) -> bool {
    let in_c = frame.name.strip_prefix("v8::internal::Builtin_");
    in_c.is_some_and(|name| !name.starts_with("HandleApiCall"))
        || frame.name.starts_with("Builtins_") && frame.name.contains("Prototype")
}

/// Whether a function is of Go's own packages: the first part of their paths is no host's name, as it is in all others.
pub(crate) fn is_of_go(name: &str) -> bool {
    const WITHOUT_PATH: [&str; 16] = [
        "runtime.", "sync.", "syscall.", "bufio.", "bytes.", "strings.", "time.", "reflect.", "fmt.", "io.",
        "net.", "os.", "sort.", "strconv.", "context.", "log.",
    ];
    let path = name.split(['(', '[', '<', ' ']).next().unwrap_or(name);
    let hosted = |first: &str| first.contains(['.', ':']);
    path.split_once('/').is_some_and(|(first, _)| !first.is_empty() && !hosted(first) && !path.contains("::"))
        || WITHOUT_PATH.iter().any(|begin| path.starts_with(begin))
}

/// Whether a function is the program's own: not the kernel's, and of no library or runtime that a table knows.
pub(crate) fn is_own(frame: &Frame) -> bool {
    !frame.kernel
        && frame.resolved
        && !frame.name.is_empty()
        && frame.name != SPINNING
        && known(frame).is_none()
        && !belongs_to_all(frame)
}

fn known(frame: &Frame) -> Option<Category> {
    let by_name = match frame.kernel {
        true => named(Table::Kernel, &frame.name),
        false => {
            named(Table::User, called(&frame.name)).filter(|kind| !is_script(frame) || !is_of_machine(*kind))
        }
    };
    let by_module = || named(Table::Library, &frame.module);
    by_name.or_else(by_module).or_else(|| is_wrapper(frame).then_some(Category::SyscallEntry))
}

/// Whether a function is of Python, Ruby, PHP or JavaScript: `write` there is not the system call.
pub(crate) fn is_script(frame: &Frame) -> bool {
    is_interpreted(&frame.module) || frame.module == "[jit]" && frame.file.is_some()
}

/// Kinds of work that are told by functions of C alone.
fn is_of_machine(kind: Category) -> bool {
    use Category::{Allocation, Comparing, Compiling, Copying, Gc, SyscallEntry};
    matches!(kind, Allocation | Comparing | Compiling | Copying | Gc | SyscallEntry)
}

/// Whether a function of the C library is the way into one system call, and hardly more.
fn is_wrapper(frame: &Frame) -> bool {
    const LIBC: [&str; 3] = ["libc.", "libc-", "libpthread"];
    frame.resolved
        && LIBC.iter().any(|begin| frame.module.starts_with(begin))
        && CALLS.contains(&without_width(as_called(&frame.name)))
}

/// A name without what the C library puts behind it for large files and late times.
pub(crate) fn without_width(name: &str) -> &str {
    let name = name.trim_start_matches('_').trim_end_matches("_nocancel").trim_end_matches("_time64");
    name.strip_suffix("64").unwrap_or(name)
}

/// Functions of the C library that are named after the system calls that they make. Source: glibc, sysdeps/unix/sysv/linux.
const CALLS: [&str; 52] = [
    "open",
    "openat",
    "close",
    "read",
    "write",
    "readv",
    "writev",
    "pread",
    "pwrite",
    "preadv",
    "pwritev",
    "lseek",
    "stat",
    "lstat",
    "fstat",
    "fstatat",
    "statx",
    "access",
    "faccessat",
    "readlink",
    "readlinkat",
    "getdents",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "mkdir",
    "mkdirat",
    "fcntl",
    "ioctl",
    "fsync",
    "fdatasync",
    "sendfile",
    "socket",
    "connect",
    "accept",
    "accept4",
    "shutdown",
    "getsockopt",
    "setsockopt",
    "getsockname",
    "getpeername",
    "getpid",
    "getcwd",
    "chdir",
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "epoll_ctl",
    "epoll_wait",
    "clock_nanosleep",
];

/// Whether a function of a program has the name of one that takes or gives a lock.
pub(crate) fn is_lock(name: &str) -> bool {
    named(Table::User, called(name)) == Some(Category::Lock)
}

/// What a table names: functions of the kernel, functions of programs, libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Kernel,
    User,
    Library,
}

/// Names whose kind is kept at most, of each table.
const MOST_KEPT: usize = 1 << 16;

/// What a table says of a name. Most stacks of a run have the same names, so that what was found is kept.
fn named(table: Table, name: &str) -> Option<Category> {
    thread_local! {
        static FOUND: RefCell<[HashMap<Box<str>, Option<Category>>; 3]> = RefCell::default();
    }
    FOUND.with_borrow_mut(|found| {
        let found = &mut found[table as usize];
        if let Some(category) = found.get(name) {
            return *category;
        }
        if found.len() >= MOST_KEPT {
            found.clear();
        }
        let category = first_that_fits(table, name);
        found.insert(name.into(), category);
        category
    })
}

fn first_that_fits(table: Table, name: &str) -> Option<Category> {
    // The names under which the C library calls its own functions.
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let fits = |pattern: &str| match (pattern.strip_prefix('^'), pattern.strip_suffix('$')) {
        (Some(_), Some(_)) => name == &pattern[1..pattern.len() - 1],
        (Some(begin), None) => name.starts_with(begin),
        _ => name.contains(pattern),
    };
    let rows = match table {
        Table::Kernel => KERNEL,
        Table::User => USER,
        Table::Library => LIBRARIES,
    };
    let row = rows.iter().find(|(_, patterns)| patterns.split_ascii_whitespace().any(fits));
    row.map(|(category, _)| *category)
}

/// Patterns apart by spaces: `^` stands for the beginning of a name, `$` then for its end; without them the text may be
/// anywhere. The first row that fits counts.
type Rows = &'static [(Category, &'static str)];

/// Functions of Linux. Those that everyone calls (locks, copies, slabs) are left out, so that their caller tells.
const KERNEL: Rows = &[
    (Category::Lock, "futex"),
    (
        Category::Scheduler,
        "^[waiting ^schedule ^__schedule ^finish_task_switch ^try_to_wake_up ^ttwu_ ^wake_up_ ^pick_next_ \
         ^enqueue_ ^dequeue_ ^select_task_rq ^update_rq_clock ^update_curr ^put_prev_ ^set_next_ ^__switch_to \
         ^switch_mm ^psi_ ^sched_ ^tick_ ^update_process_times ^hrtimer_ ^__hrtimer_ ^do_nanosleep nanosleep \
         ^do_idle ^cpuidle ^rcu_sched ^rcu_core ^sysvec_apic_timer ^asm_sysvec_apic_timer ^sysvec_reschedule \
         ^asm_sysvec_reschedule ^resched_curr sched_yield",
    ),
    (
        Category::Polling,
        "^ep_ ^do_epoll epoll_wait epoll_pwait epoll_ctl ^eventpoll ^do_sys_poll ^do_select ^core_sys_select \
         ^tcp_poll ^sock_poll ^io_cqring_wait ^__ep_ ^eventfd_",
    ),
    (
        Category::NetworkReceive,
        "^tcp_v4_rcv ^tcp_v6_rcv ^tcp_v4_do_rcv ^tcp_v6_do_rcv ^tcp_rcv_ ^tcp_recvmsg ^ip_rcv ^ipv6_rcv \
         ^ip_local_deliver ^ip_protocol_deliver ^net_rx_action ^process_backlog ^__napi_poll ^__netif_receive \
         ^netif_receive ^sock_recvmsg ^inet_recvmsg ^sock_read_iter ^tcp_data_queue ^tcp_data_ready \
         ^sock_def_readable ^skb_copy_datagram ^tcp_ack ^tcp_cleanup_rbuf sys_recv ^do_recvfrom \
         ^inet_csk_accept sys_accept ^do_accept ^tcp_rcv_state ^tcp_check_req ^tcp_conn_request \
         ^__inet_lookup ^do_softirq ^__do_softirq ^handle_softirqs",
    ),
    (
        Category::NetworkTransmit,
        "^tcp_sendmsg ^tcp_write_xmit ^__tcp_transmit ^tcp_push ^__tcp_push ^ip_queue_xmit ^__ip_queue_xmit \
         ^ip_output ^ip_finish_output ^ip_local_out ^ip6_ ^inet6_csk_xmit ^__dev_queue_xmit \
         ^dev_hard_start_xmit ^loopback_xmit ^sock_sendmsg ^__sock_sendmsg ^inet_sendmsg ^sock_write_iter \
         ^____sys_sendmsg sys_send ^tcp_stream_alloc ^tcp_tsq ^tcp_release_cb ^tcp_v4_send ^tcp_send_ \
         ^tcp_connect ^tcp_close ^tcp_fin sys_shutdown",
    ),
    (
        Category::File,
        "^ext4_ ^xfs_ ^btrfs_ ^jbd2_ ^generic_perform_write ^generic_file ^filemap_ fsync ^blk_ ^submit_bio \
         ^vfs_ ^ksys_ ^pipe_ ^do_sys_open ^path_openat ^tty_ sendfile splice ^shmem_ ^do_filp_open \
         ^iterate_dir ^seq_read ^null_ ^read_zero ^new_sync_",
    ),
    (
        Category::Memory,
        "_fault ^fault_ ^do_mmap ^vm_mmap munmap sys_brk ^do_brk madvise mprotect ^clear_page ^zap_ ^unmap_ ^exit_mmap \
         ^alloc_pages ^__alloc_pages mremap ^flush_tlb ^tlb_",
    ),
    (
        Category::SyscallEntry,
        "^entry_SYSCALL ^do_syscall ^syscall_ ^x64_sys_call ^__x64_sys_ ^__arm64_sys_ ^el0_ ^invoke_syscall \
         ^exit_to_user_mode ^srso_ ^entry_ ^irqentry_exit_to_user",
    ),
];

/// Functions of programs, by what libraries and languages call them.
const USER: Rows = &[
    (
        Category::Date,
        "httpdate strftime ^__tz ^tzset ^mktime ^__mktime clock_gettime gettimeofday ^time.Now ^time.now ^runtime.nanotime ^runtime.walltime \
         http_date ::date appendTime ^gmtime ^__gmtime ^__offtime ^localtime time::Instant SystemTime \
         DateTimeFormat ^__vdso",
    ),
    (
        Category::Comparing,
        "^strcmp ^strcasecmp ^strncmp ^strncasecmp ^memcmp ^bcmp ^__strcmp ^__strcasecmp ^__strncmp \
         ^__strncasecmp ^__memcmp ^tolower eq_ignore_ascii_case EqualFold ^strlen ^strnlen ^strchr ^strstr ^memchr ^memmem ^__strlen ^__strnlen ^__strchr ^__strstr ^__memchr cmpbody memequal IndexByte",
    ),
    (
        Category::Copying,
        "arraycopy ^memcpy ^memmove ^memset ^__mem ^strcpy ^strncpy ^strcat ^strncat ^stpcpy ^stpncpy ^strdup ^strndup \
         ^__strcpy ^__strncpy ^__strcat ^__strncat ^__stpcpy ^__stpncpy ^__strdup ^__strndup compiler_builtins::mem ^runtime.mem ^wmem",
    ),
    (
        Category::SyscallEntry,
        "^recv$ ^recvfrom$ ^recvmsg$ ^send$ ^sendto$ ^sendmsg$ ^read$ ^write$ ^readv$ ^writev$ ^accept4$ ^accept$ ^close$ \
         ^epoll_wait$ ^epoll_pwait$ ^epoll_ctl$ ^poll$ ^ppoll$ ^fsync$ ^futex$ ^syscall$ ^__libc_recv ^__libc_send \
         ^__libc_read ^__libc_write ^__libc_accept ^__send ^__recv ^__read$ ^__write$ ^__writev ^__poll ^__epoll ^syscall. \
         ^runtime/internal/syscall. ^internal/runtime/syscall. ^__internal_syscall_cancel ^__syscall_cancel",
    ),
    (
        Category::Compiling,
        "^CompileBroker ^C2Compiler ^Compile:: ^Compilation:: ^PhaseIdeal ^LinearScan ^Interpreter ^v8::internal::compiler \
         ^v8::internal::maglev ^v8::internal::baseline ^v8::internal::OptimizingCompile ^v8::internal::OptimizedCompilation \
         ^compile_file ^compile_filename ^zendparse ^zendlex ^lex_scan ^zend_compile ^zend_ast_ ^pass_two ^zend_vm_set_opcode_handler ^zend_optimize",
    ),
    (
        Category::Gc,
        "^runtime.gc ^runtime.scan ^runtime.greyobject ^runtime.markroot ^runtime.wbBuf ^runtime.bgsweep \
         ^runtime.sweep ^runtime.(*gc ^runtime.(*sweep ^runtime.tryDeferToSpanScan ^runtime.findObject \
         ^runtime.spanOf ^runtime.typePointers ^runtime.(*spanSet) ^runtime.(*spanInlineMarkBits) ^runtime.spanInline \
         ^runtime.(*spanScanOwnership) ^runtime.spanSetScans ^runtime.(*spanQueue) ^runtime.(*spanSPMC) ^runtime.makeObjPtr ^runtime.objptr \
         ^runtime.getGCMask ^runtime.(*scavenge ^internal/runtime/gc G1 ^Shenandoah ^ZBarrier ^ZMark ^ZRelocate ^PSScavenge \
         ^PSPromotion ^DefNew ^SerialHeap ^GenCollected ^VM_Gen VM_Collect DefNewScanClosure ^GC_ \
         ^v8::internal::Heap ^v8::internal::Scaveng ^v8::internal::Mark ^v8::internal::MinorMark \
         ^v8::internal::Sweeper ^heap::base:: \
         ^caml_major ^caml_minor ^caml_empty_minor ^caml_darken ^scavenge ^GarbageCollect ^evacuate \
         collectCycles ^rtsGC ^mark_slice ^sweep_slice ^caml_oldify ^caml_page_table_lookup ^bf_insert_block \
         ^bf_merge_block ^gc_collect ^deduce_unreachable ^visit_decref ^visit_reachable ^update_refs ^subtract_refs ^move_unreachable ^gc_mark ^gc_sweep ^gc_start ^gc_marks \
         ^gc_rest ^gc_enter ^gc_page_sweep ^gc_plane_sweep ^rb_gc_mark ^rb_gc_start ^rb_gc_impl_mark ^rb_gc_writebarrier \
         ^markS__system ^sweep__system ^collectCT ^unsureAsgnRef ^asgnRef ^nimGC",
    ),
    (
        Category::Allocation,
        "^malloc ^calloc ^realloc ^free ^cfree ^_int_malloc ^_int_free ^_int_realloc ^sysmalloc ^unlink_chunk \
         ^tcache ^je_ ^_rjem ^mi_ ^_mi_ ^tc_ new(unsigned delete(void __rust_alloc __rust_dealloc \
         __rust_realloc __rdl_ ^alloc::alloc raw_vec ^runtime.malloc ^runtime.newobject ^runtime.makeslice \
         ^runtime.growslice ^runtime.nextFree ^runtime.getMCache ^runtime.heapSetType ^runtime.heapBits \
         ^runtime.spanHeapBits ^runtime.publicationBarrier ^runtime.deductAssist ^runtime.(*mspan) \
         ^runtime.(*pallocBits) ^runtime.(*pageAlloc) ^runtime.mcache ^runtime.(*mcache ^runtime.(*mcentral ^runtime.(*mheap \
         ^aligned_alloc ^posix_memalign ^__libc_malloc ^__libc_free ^__libc_calloc ^__libc_realloc ^heap_for_ptr \
         ^arena_ ^caml_alloc ^bf_allocate ^rawAlloc__system ^rawDealloc__system ^newObj \
         ^PyMem_ ^_PyMem_ ^PyObject_Malloc ^PyObject_Calloc ^PyObject_Realloc ^PyObject_Free ^_PyObject_Malloc ^_PyObject_Calloc \
         ^_PyObject_Realloc ^_PyObject_Free ^_PyObject_Debug ^pymalloc_ ^address_in_range ^arena_map_ ^insert_to_usedpool \
         ^insert_to_freepool ^allocate_from_new_pool ^read_size_t$ ^write_size_t$ ^fill_mem_debug \
         ^_emalloc ^_efree ^_ecalloc ^_erealloc ^_safe_emalloc ^zend_mm_ ^newobj_ ^rb_newobj ^rb_ec_newobj ^rb_wb_protected_newobj \
         ^rb_wb_unprotected_newobj ^ruby_xmalloc ^ruby_xcalloc ^ruby_xrealloc ^ruby_xfree ^ruby_sized_x \
         ^objspace_x ^__asan_ ^__interceptor_malloc ^__interceptor_free ^__interceptor_calloc ^__interceptor_realloc ^apr_palloc ^ngx_palloc ^ngx_pnalloc",
    ),
    // What a virtual machine of JavaScript is asked to run, whoever called it: without names of their own, the program's
    // functions and those of its libraries are not told apart.
    (Category::Handler, "^Builtins_JSEntry"),
    (Category::Tls, "rustls:: crypto/tls ^SSL_ ^EVP_ ^aes_ ^AES_ ^gcm_ aws_lc ^sha256 ^SHA ^ring:: <ring::"),
    (
        Category::HeadParsing,
        "httparse phr_parse http_parser llhttp parse_request parse_header parse_head parse_uri ngx_http_parse \
         ngx_http_process_request ReadMIMEHeader readRequest HttpObjectDecoder HeaderParser http1::request \
         http1::scan http1::field RequestHeader).parse parseFirstLine find_header get_header header_lookup",
    ),
    (
        Category::HeaderWriting,
        "encode_headers write_head write_header writeHeader http.Header. HttpObjectEncoder HttpHeadersEncoder \
         ngx_http_header_filter append_header AppendBytes http1::write ResponseHeader). format_head \
         extraHeader header_map HeaderMap",
    ),
    (
        Category::Serialisation,
        "serde json Json JSON jackson protobuf msgpack ::ser:: ::de:: compress/ ^deflate ^inflate ^longest_match \
         ^crc32 ^adler32 flate2 miniz brotli Brotli ^ZSTD_ zstd",
    ),
    (
        Category::Lock,
        "pthread_mutex pthread_spin pthread_rwlock ^__lll_ ^lll_ pthread_cond sync.(*Mutex sync.(*RWMutex parking_lot Mutex ^runtime.lock \
         ^runtime.unlock ^runtime.futex ObjectMonitor",
    ),
    (
        Category::Runtime,
        "tokio ^mio:: ^may:: hyper:: hyper_util:: actix_ ^axum tower ^warp straightline corosensei \
         ^generator:: futures_ async_std crossbeam ^std::thread ^runtime. ^net/http. ^internal/poll. ^net.(* \
         ^bufio. netty ^uv_ ^uv__ ^ev_ ^event_base ^ngx_epoll ^ngx_event ^ngx_process_events \
         fasthttp asyncdispatch asyncnet ^caml_thread Lwt sun.nio. java.nio. ^__libc_start ^start_thread ^clone3",
    ),
];

/// Libraries that do one kind of work, by the beginning of their file names.
const LIBRARIES: Rows = &[
    (Category::Tls, "^libssl ^libcrypto ^libgnutls"),
    (Category::Allocation, "^libjemalloc ^libmimalloc ^libtcmalloc"),
    (Category::Serialisation, "^libz. ^libzstd ^libbrotli ^libyajl ^libjson"),
    (Category::Date, "^[vdso]"),
    (Category::Runtime, "^libuv ^libev ^libjvm"),
];
