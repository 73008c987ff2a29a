use model::record::TcpCounters;

use super::*;

const STAT: &str =
    "25661 (cat) R 25659 25658 21876 0 -1 4194304 105 7 3 2 11 13 17 19 20 0 5 0 132482 3133440 390";

#[test]
fn stat_reads_with_any_name() {
    let expected = Stat {
        pid: 25661,
        state: 'R',
        parent: 25659,
        group: 25658,
        flags: 4_194_304,
        minor_faults: 105,
        child_minor_faults: 7,
        major_faults: 3,
        child_major_faults: 2,
        user: 11,
        system: 13,
        child_user: 17,
        child_system: 19,
        threads: 5,
        start: 132_482,
    };
    for name in ["cat", "a b", ") R 1 2 3", "((", "))", "", "tmux: server", "a\nb"] {
        assert_eq!(stat(&STAT.replace("cat", name)), Some(expected), "{name:?}");
    }
}

#[test]
fn every_prefix_of_stat_is_refused_or_complete() {
    let whole = stat(STAT);
    let needed = STAT.find(" 3133440").unwrap();
    for end in 0..needed - 1 {
        assert!(stat(&STAT[..end]).is_none_or(|read| Some(read) != whole), "{end}");
    }
    assert_eq!(stat(&STAT[..needed]), whole);
    assert_eq!(stat("7 (a) S x 5 5 0 -1 0 1 1 1 1 1 1 1 1 20 0 1 0 5"), None);
}

#[test]
fn status_reads_what_is_there() {
    let text = "Name:\ta:b\nVmHWM:\t    1760 kB\nVmRSS:\t    1700 kB\nThreads:\t1\nCpus_allowed_list:\t0,2-3\n\
        voluntary_ctxt_switches:\t101\nnonvoluntary_ctxt_switches:\t7\n";
    let expected = Status {
        rss_peak_bytes: 1760 * 1024,
        rss_bytes: 1700 * 1024,
        voluntary_switches: 101,
        involuntary_switches: 7,
        allowed_cpus: "0,2-3".to_owned(),
        name: "a:b".to_owned(),
    };
    assert_eq!(status(text), expected);
    // A kernel thread has no memory, and some kernels lack a line.
    assert_eq!(status("Threads:\t1\n"), Status::default());
    assert_eq!(status("VmRSS:\t\nVmHWM: many kB\n\0"), Status::default());
}

#[test]
fn schedstat_reads_or_not() {
    assert_eq!(schedstat("1028266 3423863 1\n"), Some(Schedstat { run_ns: 1_028_266, wait_ns: 3_423_863 }));
    for text in ["", "1", "a b c", "-1 2 3"] {
        assert_eq!(schedstat(text), None, "{text}");
    }
}

const PROC_STAT: &str = "\
cpu  300 0 0 0 0 0 0 0 0 0
cpu0 1 2 3 4 5 6 7 8 9 10
cpu1 11 12 13 14 15 16 17 18 19 20
cpu12 1 2 3 4
intr 930880 0 0
ctxt 2491475
procs_running 3
procs_blocked 0
";

#[test]
fn the_stack_of_a_thread_is_known_while_it_waits() {
    for (text, expected) in [
        ("202 0x7f00 0x189 0x2 0x0 0x0 0xffffffff 0x7ffd5cfe0f38 0x7f83f53142f1\n", Some(0x7ffd_5cfe_0f38)),
        // For a page.
        ("-1 0x7ffd5cfe0f38 0x7f83f53142f1\n", Some(0x7ffd_5cfe_0f38)),
        ("running\n", None),
        ("0x1 0x2\n", None),
        ("202 0x1 12 0x2\n", None),
        ("", None),
    ] {
        assert_eq!(waiting_stack(text), expected, "{text}");
    }
}

#[test]
fn cpu_lines_leave_out_the_sum_and_fill_what_old_kernels_lack() {
    let lines: Vec<(u32, CpuTicks)> = cpu_lines(PROC_STAT).collect();
    assert_eq!(lines.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [0, 1, 12]);
    let zero = CpuTicks { user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 };
    assert_eq!(lines[0].1, zero);
    assert_eq!(lines[2].1, CpuTicks { user: 1, nice: 2, system: 3, idle: 4, ..CpuTicks::default() });
    assert_eq!(cpu_lines("cpuidle 3\ncpu\n").count(), 0);
}

#[test]
fn running_threads_are_read() {
    assert_eq!(running(PROC_STAT), Some(3));
    assert_eq!(running("procs_blocked 3\n"), None);
}

#[test]
fn tcp_counters_are_found_by_name() {
    let snmp = "Ip: Forwarding InSegs\nIp: 1 999\nTcp: RtoAlgorithm ActiveOpens PassiveOpens InSegs OutSegs RetransSegs\n\
        Tcp: 1 2 3 5 7 11\nUdp: InDatagrams\nUdp: 4\n";
    let netstat =
        "TcpExt: DelayedACKs ListenOverflows ListenDrops\nTcpExt: 13 17 19\nIpExt: InOctets\nIpExt: 1\n";
    let expected = TcpCounters {
        active_opens: 2,
        passive_opens: 3,
        segments_in: 5,
        segments_out: 7,
        retransmits: 11,
        delayed_acks: 13,
        listen_overflows: 17,
        listen_drops: 19,
    };
    assert_eq!(tcp_counters(snmp, netstat), expected);
    for (snmp, netstat) in [("", ""), ("Tcp: InSegs\n", "TcpExt:\n"), ("Tcp: InSegs\nTcp: many\n", "\0")] {
        assert_eq!(tcp_counters(snmp, netstat), TcpCounters::default());
    }
}

const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu\\040s rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:31 /docker/abc /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

#[test]
fn hierarchies_of_both_versions_are_found() {
    let own = "9:name=systemd:/\n3:memory:/docker/abc/inner\n2:cpu,cpuacct:/\n0::/a/b\n";
    let found = hierarchies(own, MOUNTS);
    let mounts: Vec<(&str, &str)> = found.iter().map(|h| (h.mount.as_str(), h.path.as_str())).collect();
    let expected = [
        ("/sys/fs/cgroup/memory", "/inner"),
        ("/sys/fs/cgroup/cpu s", "/"),
        ("/sys/fs/cgroup/unified", "/a/b"),
    ];
    assert_eq!(mounts, expected);
    assert!(found[1].has("cpuacct") && !found[1].has("memory") && found[2].has("memory"));
    assert_eq!(
        found[2].folders(),
        ["/sys/fs/cgroup/unified/a/b", "/sys/fs/cgroup/unified/a", "/sys/fs/cgroup/unified"]
    );
    assert_eq!(found[1].folders(), ["/sys/fs/cgroup/cpu s"]);
    assert!(hierarchies("", MOUNTS).is_empty() && hierarchies(own, "").is_empty());
    assert!(hierarchies("nonsense\n::", "x - y\n").is_empty());
}

#[test]
fn cpu_time_is_shared_out_by_the_cpu_controller_and_version_2() {
    let text = "9:name=systemd:/s\n4:cpuset:/set\n2:cpu,cpuacct:/a\n0::/b\n";
    assert_eq!(cpu_cgroup(text), "2:cpu,cpuacct:/a\n0::/b");
    assert_eq!(cpu_cgroup("nonsense\n\n"), "");
}

/// Lines of OpenJDK 17 with the collectors Serial, G1 and Z.
const MACHINE: &str = "[1000ns][gc] Using Serial
[2000ns][gc] GC(0) Pause Young (Allocation Failure) 17M->16M(61M) 58.206ms
[2500ns][safepoint] Safepoint \"GenCollectForAllocation\", Time since last: 158597114 ns, Reaching safepoint: 5073 ns, \
                       Cleanup: 1579118 ns, At safepoint: 59004913 ns, Total: 60589104 ns
[3000ns][gc       ] GC(1) Pause Young (Normal) (G1 Evacuation Pause) 33M->31M(61M) 109.585ms
[3500ns][safepoint] Safepoint \"GenCollectForAllocation\", Time since last: 1 ns, Total: 400 ns
[4000ns][safepoint] Safepoint \"ICBufferFull\", Time since last: 1 ns, Total: 30 ns
[5000ns][gc       ] GC(2) Garbage Collection (Warmup) 44M(69%)->42M(66%)
[6000ns][gc       ] Allocation Stall (main) 17.984ms
[9000ns][gc       ] GC(3) Pause Full (Allocation Failure) 60M->10M(61M) 72.573ms
[cut";

#[test]
fn a_machine_s_log_is_pauses_and_what_was_allocated_between_collections() {
    let log = machine_log(MACHINE, &[[0, 8999]]);
    assert_eq!(log.collections_ns, [60_589_104, 400]);
    let paused = log.paused();
    assert_eq!((paused.count, paused.total_ns, paused.longest_ns), (3, 60_589_534, 60_589_104));
    // From 16 to 33 and from 31 to 44 MiB between 2000 and 5000 ns.
    assert_eq!(log.allocated_bytes_per_s, Some(30.0 * 1_048_576.0 * 1e9 / 3000.0));
    let part = machine_log(MACHINE, &[[2600, 4000]]);
    assert_eq!((part.collections_ns.len(), part.paused().count, part.allocated_bytes_per_s), (1, 1, None));
    assert_eq!(machine_log("", &[[0, 9]]), model::record::MachineLog::default());
}

#[test]
fn keyed_numbers_are_read_whole() {
    let text = "nr_throttled 3\nthrottled_usec 17\nthrottled_usec_more 4\n";
    assert_eq!(keyed(text, "throttled_usec"), Some(17));
    assert_eq!(keyed(text, "throttled"), None);
    assert_eq!(keyed("throttled_usec\n", "throttled_usec"), None);
}

/// One record as the kernel lays it out.
fn perf_record(kind: u32, flags: u16, body: &[u64]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len() * 8).unwrap();
    let mut bytes = [&kind.to_le_bytes()[..], &flags.to_le_bytes(), &size.to_le_bytes()].concat();
    body.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

const KERNEL_MARK: u64 = -128_i64 as u64;
const USER_MARK: u64 = -512_i64 as u64;

#[test]
fn perf_records_are_read_until_one_is_cut() {
    let chain = [KERNEL_MARK, 1, 2, USER_MARK, 3];
    let sample = perf_record(9, 0, &[&[7 | 8 << 32, 99, 5][..], &chain].concat());
    let bytes =
        [sample.clone(), perf_record(3, 0, &[1, 2]), perf_record(2, 0, &[1, 41, 7 | 8 << 32, 99]), sample]
            .concat();
    let whole = PerfRecord::Sample { pid: 7, tid: 8, time_ns: 99, chain: chain.to_vec(), stack: None };
    let found: Vec<PerfRecord> = perf_records(&bytes).collect();
    assert_eq!(found, [whole.clone(), PerfRecord::Lost(41), whole]);
    for end in 0..bytes.len() {
        assert!(perf_records(&bytes[..end]).count() < 3);
    }
    // Process 7 began process 9, and then a thread of its own.
    let forks = [
        perf_record(7, 0, &[9 | 7 << 32, 9 | 7 << 32, 55]),
        perf_record(7, 0, &[7 | 7 << 32, 8 | 7 << 32, 56]),
    ];
    let found: Vec<PerfRecord> = perf_records(&forks.concat()).collect();
    assert_eq!(found, [PerfRecord::Forked { parent: 7, child: 9, time_ns: 55 }]);
    // Process 9 becomes another program; a thread of it, which only says what it is for, is passed over.
    let name = u64::from_le_bytes(*b"grep\0xyz");
    let names = [perf_record(3, 0, &[9 | 9 << 32, name, 57]), perf_record(3, 0, &[9 | 10 << 32, name, 58])];
    let found: Vec<PerfRecord> = perf_records(&names.concat()).collect();
    assert_eq!(found, [PerfRecord::Named { pid: 9, name: "grep".to_owned() }]);
    // A chain longer than its record, and a size below that of a header, end it.
    assert_eq!(perf_records(&perf_record(9, 0, &[7, 99, 6, 1])).count(), 0);
    assert_eq!(perf_records(&[9, 0, 0, 0, 0, 0, 3, 0, 0, 0]).count(), 0);
}

#[test]
fn a_stack_goes_with_its_sample_and_nothing_is_read_of_one_that_is_cut() {
    let registers: Vec<u64> = (0..USER_REGISTERS.len() as u64).collect();
    // 24 bytes were asked for, and there were 16.
    let stack = [&[2][..], &registers, &[24, 0x11, 0x22, 0x33, 16]].concat();
    let record = |rest: &[u64]| perf_record(9, 0, &[&[7 | 8 << 32, 99, 1, 5][..], rest].concat());
    let found = |rest: &[u64]| match perf_records(&record(rest)).next() {
        Some(PerfRecord::Sample { stack, .. }) => stack,
        other => panic!("{other:?}"),
    };
    let bytes = [0x11_u64, 0x22].map(u64::to_le_bytes).concat();
    assert_eq!(found(&stack), Some(UserStack { registers: registers.clone(), bytes }));
    for end in 0..stack.len() {
        assert_eq!(found(&stack[..end]), None, "{end}");
    }
    // Threads of the kernel have none; sizes that cannot be are no reason to read on.
    assert_eq!(found(&[0, 0]), None);
    assert_eq!(found(&[&[2][..], &registers, &[u64::MAX - 4, 1, 16]].concat()), None);
    assert_eq!(found(&[&[2][..], &registers, &[8, 1, 16]].concat()), None);
}

#[test]
fn threads_leave_and_come() {
    let body = [7 | 8 << 32, 99];
    let bytes = [0x2000, 0x6000, 0].map(|flags| perf_record(14, flags, &body)).concat();
    let left = |preempted| PerfRecord::Left { tid: 8, time_ns: 99, preempted };
    let expected = [left(false), left(true), PerfRecord::Came { tid: 8, time_ns: 99 }];
    assert_eq!(perf_records(&bytes).collect::<Vec<_>>(), expected);
}

#[test]
fn chains_are_split_at_their_marks() {
    let guest = -2048_i64 as u64;
    assert_eq!(chain_of(&[1, 2], &[3]), [KERNEL_MARK, 1, 2, USER_MARK, 3]);
    assert_eq!(chain_of(&[], &[3]), [USER_MARK, 3]);
    assert_eq!(split_chain(&[KERNEL_MARK, 1, 2, USER_MARK, 3]), (vec![1, 2], vec![3]));
    assert_eq!(split_chain(&[USER_MARK, 3, 4, guest, 5]), (vec![], vec![3, 4]));
    assert_eq!(split_chain(&[]), (vec![], vec![]));
}

#[test]
fn mappings_are_read() {
    let text = "55d0-55f0 r-xp 00001000 fe:00 123   /opt/a b (deleted)\n7f00-7f10 rw-p 00000000 00:00 0 \n\
        7ff0-8000 r-xp 00000000 00:00 0   [vdso]\nnonsense\n";
    let found = mappings(text);
    let paths: Vec<(&str, bool, u64)> =
        found.iter().map(|map| (map.path.as_str(), map.executable, map.offset)).collect();
    assert_eq!(paths, [("/opt/a b", true, 0x1000), ("", false, 0), ("[vdso]", true, 0)]);
    assert_eq!((found[0].begin, found[0].end), (0x55d0, 0x55f0));
}

#[test]
fn files_about_resources_are_read() {
    assert_eq!(meminfo_bytes("MemTotal:  16 kB\nMemAvailable: 3 kB\n", "MemAvailable"), Some(3072));
    assert_eq!(meminfo_bytes("MemTotal", "MemTotal"), None);
    assert_eq!(pressure_us("some avg10=0.00 avg60=0.00 avg300=0.00 total=17\nfull total=5\n"), Some(17));
    assert_eq!(pressure_us("full total=5\n"), None);
    assert_eq!(softnet("0a 00000002 00000003 0\n0b 00000010 00000001 0\n"), [18, 4]);
    let dev = "Inter-| Receive | Transmit\n face |bytes\n  lo: 100 2 3 4 0 0 0 0 200 2 5 6 0 0 0 0\neth0: 1 0 0 1 0 0 0 0 2 0 0 0 0 0 0 0\n";
    let found = interfaces(dev);
    assert_eq!((found.in_bytes, found.out_bytes, found.errors, found.drops), (101, 202, 8, 11));
    let found = disks(" 254 0 vda 1 2 3 4 5 6 7 8 0 77 99 0 0\n 7 0 loop0 0\n");
    assert_eq!((found["vda"], found.len()), ([77, 99], 1));
    let limits = "Limit   Soft Limit  Hard Limit  Units\nMax processes  unlimited  unlimited  processes\nMax open files 1024 524288 files\n";
    assert_eq!((limit(limits, "Max open files"), limit(limits, "Max processes")), (Some(1024), None));
}

/// A message of the kernel about one socket, with `attributes` behind it.
fn diag_message(kind: u16, state: u8, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 72];
    body[1] = state;
    body[4..8].copy_from_slice(&[0x1f, 0x90, 0xc3, 0x50]);
    body[44] = 9;
    body[56..60].copy_from_slice(&3_u32.to_ne_bytes());
    body[60..64].copy_from_slice(&511_u32.to_ne_bytes());
    body[68..72].copy_from_slice(&77_u32.to_ne_bytes());
    body.extend(attributes);
    let mut bytes = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(body);
    bytes
}

#[test]
fn sockets_are_read_from_the_kernels_messages() {
    let mut info = vec![0; 192];
    info[100] = 5;
    info[136] = 7;
    info[152] = 11;
    info[156] = 13;
    // One attribute that is passed over, then tcp_info.
    let mut attributes = [8_u16.to_ne_bytes(), 8_u16.to_ne_bytes()].concat();
    attributes.extend([0; 4]);
    attributes.extend([196_u16.to_ne_bytes(), 2_u16.to_ne_bytes()].concat());
    attributes.extend(info);
    let mut memory = [40_u16.to_ne_bytes(), 7_u16.to_ne_bytes()].concat();
    memory.extend([0; 32]);
    memory.extend(19_u32.to_ne_bytes());
    let bytes = [diag_message(20, 10, &memory), diag_message(20, 1, &attributes)].concat();
    let mut found = Vec::new();
    assert_eq!(diag_replies(&bytes, &mut found), Some(true));
    let [listener, connection] = found[..] else { panic!("{found:?}") };
    assert_eq!(
        (listener.listening, listener.local_port, listener.queue, listener.backlog),
        (true, 8080, 3, 511)
    );
    assert_eq!((listener.dropped, connection.dropped), (Some(19), None));
    assert_eq!((connection.listening, connection.remote_port, connection.queue), (false, 50_000, 0));
    assert_eq!((connection.cookie, connection.inode), (9, 77));
    let counters = connection.counters;
    assert_eq!((counters.retransmits, counters.segments_out), (5, 7));
    assert_eq!((counters.data_segments_in, counters.data_segments_out), (11, 13));
    assert_eq!(diag_replies(&diag_message(3, 0, &[]), &mut found), Some(false));
    assert_eq!(diag_replies(&diag_message(2, 0, &[]), &mut found), None);
    // Cut anywhere, it is refused or says nothing, and never panics.
    for end in 0..bytes.len() {
        let _ = diag_replies(&bytes[..end], &mut Vec::new());
    }
    assert_eq!(diag_request(2).len(), 72);
}

#[test]
fn perf_maps_of_several_runtimes_are_read() {
    let text = "7f20 10 LazyCompile:*handle /app.js:3\nnonsense\n0x00007f00 0x0000000000000020 void a.b.C.run(int, int)\n\
                8000 10 java.util.List a.b.C$D.<init>()\n8010 10 (anonymous) /app.js:4 (x)\n\
                0x9000 0x10 StubRoutines (1)\n";
    let symbols = perf_map(text);
    let at = |address| jit_symbol(&symbols, address).map(|symbol| symbol.name.as_str());
    assert_eq!(at(0x7f00), Some("a.b.C.run"));
    assert_eq!(at(0x7f1f), Some("a.b.C.run"));
    assert_eq!(at(0x7f2f), Some("handle"));
    assert_eq!(at(0x8000), Some("a.b.C$D.<init>"));
    assert_eq!(at(0x8010), Some("(anonymous) /app.js:4 (x)"));
    assert_eq!(at(0x9000), Some("StubRoutines (1)"));
    assert_eq!((at(0x7eff), at(0x7f30)), (None, None));
    assert!(perf_map("0xffffffffffffffff 2 overflow\n").is_empty());
}

#[test]
fn functions_of_scripts_have_their_file_and_line() {
    for (name_in_map, name, file, line) in [
        ("JS:*hot /srv/app.js:2:21", "hot", Some("/srv/app.js"), Some(2)),
        (
            "LazyCompile:~get stdout node:internal/bootstrap:40:7",
            "get stdout",
            Some("node:internal/bootstrap"),
            Some(40),
        ),
        ("LazyCompile:*handle /my app.js:3", "handle", Some("/my app.js"), Some(3)),
        ("Function:^ file:///srv/app.mjs:9:1", "(anonymous)", Some("file:///srv/app.mjs"), Some(9)),
        ("Eval:~ evalmachine.<anonymous>:1:1", "(anonymous)", Some("evalmachine.<anonymous>"), Some(1)),
        ("JS:*alone", "alone", None, None),
        ("Builtin:ArrayMap", "Builtin:ArrayMap", None, None),
    ] {
        let symbols = perf_map(&format!("1000 10 {name_in_map}\n"));
        let found = &symbols[0];
        assert_eq!((&*found.name, found.file.as_deref(), found.line), (name, file, line), "{name_in_map}");
    }
}

/// New code lies where old code was, across its edges.
#[test]
fn of_code_in_one_place_the_later_counts() {
    let symbols = perf_map("1000 40 old\n1040 40 other\n1020 30 new\n0ff0 8 before\n");
    let names: Vec<&str> = symbols.iter().map(|symbol| &*symbol.name).collect();
    assert_eq!(names, ["before", "new"]);
    assert_eq!(jit_symbol(&symbols, 0x1045).map(|symbol| &*symbol.name), Some("new"));
}

#[test]
fn lines_of_python_are_found() {
    // Two units of the first line, one two lines on (short form, with columns), one that belongs to no line, and one 100
    // lines back, by a number of two bytes, without columns.
    let table =
        [0x80 | 1, 0x11, 0x80 | 12 << 3, 1, 2, 0x80 | 15 << 3, 0x80 | 13 << 3, 64 | (201 & 63), 201 >> 6];
    let lines: Vec<Option<u32>> = (0..6).map(|unit| line_at(&table, 200, unit)).collect();
    assert_eq!(lines, [Some(200), Some(200), Some(202), None, Some(102), None]);
}

/// Tables that Python 3.9 and 3.10 made of one function, which begins in line 2.
#[test]
fn lines_of_older_pythons_are_found() {
    let steps = [0, 1, 4, 1, 12, 1, 6, 1, 2, 255, 2, 1, 2, 255, 6, 3, 8, 1, 6, 1, 6, 255];
    let ranges = [4, 1, 12, 1, 6, 1, 2, 1, 2, 255, 2, 1, 6, 255, 8, 3, 6, 1, 6, 1, 6, 255];
    let places = [(0, 3), (3, 3), (4, 4), (16, 5), (22, 6), (24, 5), (28, 5), (33, 5), (34, 8), (54, 9)];
    for (place, line) in places {
        assert_eq!(line_by_steps(&steps, 2, place), Some(line), "{place}");
        assert_eq!(line_by_ranges(&ranges, 2, place), Some(line), "{place}");
    }
    // What belongs to no line, and what lies behind the table.
    assert_eq!(line_by_ranges(&[4, 128, 4, 1], 2, 2), None);
    assert_eq!(line_by_ranges(&[4, 128, 4, 1], 2, 5), Some(3));
    assert_eq!(line_by_ranges(&ranges, 2, 1000), None);
}

#[test]
fn strings_of_python_are_read_by_their_width() {
    assert_eq!(string_kind(1 << 2 | 32 | 64), Some((1, true)));
    assert_eq!(string_kind(2 << 2 | 32), Some((2, false)));
    assert_eq!((string_kind(1 << 2), string_kind(3 << 2 | 32)), (None, None));
    assert_eq!(string_of(&[0x61, 0, 0xe4, 0x03], 2), "a\u{3e4}");
    let versions = ["/usr/bin/python3.11", "/lib/libpython3.12.so.1.0", "/usr/bin/python3", "/a/numpy.so"];
    assert_eq!(versions.map(version_of), [Some(11), Some(12), None, None]);
}
