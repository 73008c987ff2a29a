//! The host's own counters.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::Duration;

use model::units::CpuSet;
use observe::{
    Group, HostWatch, ObserveError, ResourceSnapshot, Sampler, busy_share, capabilities, fingerprint,
    listening_process,
};

use crate::cgroup::Cgroup;
use crate::support::{Fixture, in_own_network};

/// Ends a child, and waits for it.
fn put_away(mut child: Child) {
    child.kill().and_then(|()| child.wait()).unwrap();
}

fn all_cpus() -> CpuSet {
    fingerprint().allowed_cpus.parse().unwrap()
}

#[test]
fn the_times_of_a_cpu_set_add_up_to_its_wall_time() {
    let watch = HostWatch::new(all_cpus());
    let before = watch.snapshot().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let used = watch.snapshot().unwrap().since(&before);
    assert_eq!(used.cpus as usize, all_cpus().len());
    let sum = used.user_ns + used.system_ns + used.irq_ns + used.softirq_ns + used.idle_ns + used.steal_ns;
    let wall = used.wall_ns * u64::from(used.cpus);
    // Ticks of 10 ms, and an idle CPU that is brought up to date late.
    assert!(sum.abs_diff(wall) * 10 < wall, "{sum} of {wall}: {used:?}");
}

#[test]
fn a_connection_is_in_the_tcp_counters() {
    let watch = HostWatch::new(all_cpus());
    let before = watch.snapshot().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for _ in 0..13 {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"?").unwrap();
        server.read_exact(&mut [0]).unwrap();
    }
    let tcp = watch.snapshot().unwrap().since(&before).tcp;
    assert!(tcp.active_opens >= 13 && tcp.passive_opens >= 13 && tcp.segments_out >= 13 * 4, "{tcp:?}");
}

#[test]
fn tcp_is_that_of_the_network_in_which_the_watched_process_is() {
    let Some(fixture) = in_own_network(&["sleep", "1"]) else {
        testkit::skipped("no network namespace can be made here");
        return;
    };
    let group = Group::from_pid(fixture.pid()).unwrap();
    let watch = HostWatch::for_process(fixture.pid(), all_cpus());
    let before = (watch.snapshot().unwrap(), ResourceSnapshot::read(&group).unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let clients: Vec<_> =
        (0..5).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    let tcp = watch.snapshot().unwrap().since(&before.0).tcp;
    assert_eq!(
        (tcp.active_opens, tcp.segments_in),
        (0, 0),
        "nothing happens in there, but here: {clients:?}"
    );
    let after = ResourceSnapshot::read(&group).unwrap();
    assert!(after.since(&before.1).sockets.is_none(), "its sockets are not ours");
    let notes = after.notes();
    assert!(notes.iter().any(|note| note.contains("another network namespace")), "{notes:?}");
}

#[test]
fn limits_are_those_of_the_cgroup_in_which_the_watched_process_is() {
    const MEMORY_BYTES: u64 = 20 << 20;
    let Some(cgroup) = Cgroup::with_limits(3_000, MEMORY_BYTES) else {
        testkit::skipped("no cgroup can be made here");
        return;
    };
    let mut fixture = Fixture::new(&["spin", "30"]);
    cgroup.take(fixture.pid());
    let group = Group::from_pid(fixture.pid()).unwrap();
    let (own, watch) = (HostWatch::new(all_cpus()), HostWatch::for_process(fixture.pid(), all_cpus()));
    let before = (own.snapshot().unwrap(), watch.snapshot().unwrap());
    fixture.work();
    let (own_ns, its_ns) = (
        own.snapshot().unwrap().since(&before.0).throttled_ns,
        watch.snapshot().unwrap().since(&before.1).throttled_ns,
    );
    // 30 ms of work at 3 ms in each 100 ms.
    assert!(its_ns > 500_000_000 && own_ns < its_ns / 2, "{its_ns} and {own_ns}");
    assert!(watch.sees_limits());
    let resources = ResourceSnapshot::read(&group).unwrap();
    let memory = resources.since(&resources).memory;
    assert_eq!(memory.cgroup_limit_bytes, Some(MEMORY_BYTES));
    assert!(memory.cgroup_used_bytes.unwrap() <= MEMORY_BYTES, "{memory:?}");
    assert_eq!(resources.notes(), [""; 0]);
}

#[test]
fn a_full_accept_queue_is_counted() {
    let watch = HostWatch::new(all_cpus());
    let before = watch.snapshot().unwrap();
    // The queue of this listener holds one more than the backlog, and nobody accepts.
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let addr = std::net::SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
    let quiet = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let group = Group::from_pid(std::process::id()).unwrap();
    let own = ResourceSnapshot::read(&group).unwrap();
    let clients: Vec<_> =
        (0..5).map(|_| TcpStream::connect_timeout(&addr, Duration::from_millis(100))).collect();
    let tcp = watch.snapshot().unwrap().since(&before).tcp;
    if let Some(sockets) = ResourceSnapshot::read(&group).unwrap().since(&own).sockets {
        let dropped = |port| sockets.listeners.iter().find(|one| one.port == port).unwrap().dropped.unwrap();
        assert!(dropped(addr.port()) >= 1, "{sockets:?}");
        assert_eq!(dropped(quiet.local_addr().unwrap().port()), 0, "the queue of another is another's");
    }
    assert!(tcp.listen_overflows >= 1 && tcp.listen_drops >= tcp.listen_overflows, "{tcp:?} {clients:?}");
}

#[test]
fn a_busy_cpu_is_seen() {
    let mut fixture = Fixture::new(&["spin", "900"]);
    let working = std::thread::spawn(move || fixture.work());
    let busy = busy_share(&all_cpus(), Duration::from_millis(500)).unwrap();
    working.join().unwrap();
    let one = 1.0 / all_cpus().len() as f64;
    assert!(busy > 0.7 * one && busy <= 1.0, "{busy}");
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    assert!(HostWatch::new("8000".parse().unwrap()).snapshot().is_err());
}

#[test]
fn a_sampler_tells_target_and_generator_apart() {
    let (mut target, generator) = (Fixture::new(&["spin", "300"]), Fixture::new(&["sleep", "1"]));
    let group = |fixture: &Fixture| Group::from_pid(fixture.pid()).unwrap();
    let sampler = Sampler::new(vec![group(&target)], group(&generator), all_cpus(), all_cpus());
    let before = sampler.read(0).unwrap();
    target.work();
    let seen = sampler.read(0).unwrap().since(&before);
    assert!(seen.target.cpu.total_ns > 250_000_000, "{:?}", seen.target);
    assert!(seen.generator.cpu.total_ns < 10_000_000, "{:?}", seen.generator);
    assert!(seen.observer_cpu_ns > 0 && seen.server_cpus.wall_ns >= 300_000_000);
}

#[test]
fn what_an_idle_target_uses_is_its_own_and_nobody_elses() {
    let fixture = [0, 1].map(|_| Fixture::new(&["sleep", "1"]));
    let (mut busy, generator) = (Fixture::new(&["spin", "300"]), Fixture::new(&["sleep", "1"]));
    let group = |fixture: &Fixture| Group::from_pid(fixture.pid()).unwrap();
    let targets = vec![group(&fixture[0]), group(&busy), group(&fixture[1])];
    let sampler = Sampler::new(targets, group(&generator), all_cpus(), all_cpus());
    let before = sampler.read(0).unwrap();
    busy.work();
    let seen = sampler.read(0).unwrap().since(&before);
    assert!(seen.idle_ns[0] > 250_000_000 && seen.idle_ns[1] < 10_000_000, "{:?}", seen.idle_ns);
    assert!(seen.target.cpu.total_ns < 10_000_000, "{:?}", seen.target);
    assert!(seen.server_cpus.others_ns < 200_000_000, "{} ns", seen.server_cpus.others_ns);
}

#[test]
fn who_is_neither_target_nor_generator_is_another() {
    let (target, generator) = (Fixture::new(&["sleep", "1"]), Fixture::new(&["sleep", "1"]));
    let group = |fixture: &Fixture| Group::from_pid(fixture.pid()).unwrap();
    let sampler = Sampler::new(vec![group(&target)], group(&generator), all_cpus(), all_cpus());
    let before = sampler.read(0).unwrap();
    // What is below this process counts as its own; a session that init adopts does not.
    let shell = format!("'{}' spin-now 300 &", env!("CARGO_BIN_EXE_observe-fixture"));
    std::process::Command::new("sh").args(["-c", &shell]).status().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let seen = sampler.read(0).unwrap().since(&before);
    assert!(seen.server_cpus.others_ns > 50_000_000, "{} ns", seen.server_cpus.others_ns);
    assert_eq!(seen.server_cpus.others_ns, seen.load_cpus.others_ns);
}

#[test]
fn the_fingerprint_has_what_every_linux_has() {
    let host = fingerprint();
    assert!(host.cpus >= 1 && host.memory_bytes > 1 << 20 && host.descriptors > 0, "{host:?}");
    assert!(!host.kernel.is_empty() && !host.tool_version.is_empty());
    assert!(host.sysctls.contains_key("net.core.somaxconn"), "{:?}", host.sysctls);
    assert_eq!(host, fingerprint());
}

#[test]
fn every_capability_says_something() {
    let found = capabilities();
    let ids: std::collections::BTreeSet<_> = found.iter().map(|capability| capability.id).collect();
    assert!(found.len() >= 20 && ids.len() == found.len(), "{ids:?}");
    let sentences =
        |text: &str| text.ends_with('.') && !text.ends_with("..") && text.starts_with(char::is_uppercase);
    assert!(found.iter().all(|capability| sentences(&capability.text)), "{found:?}");
    // What can be told in another way too.
    let is_file = |path: &str| std::fs::read(path).is_ok();
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap();
    for (id, expected) in [
        ("cpu_time", true),
        ("pressure", is_file("/proc/pressure/cpu")),
        ("btf", is_file("/sys/kernel/btf/vmlinux")),
        ("no_swap", swaps.lines().count() <= 1),
        ("cpus", all_cpus().len() >= 2),
    ] {
        let capability = found.iter().find(|capability| capability.id == id).unwrap();
        assert_eq!(capability.ok, expected, "{capability:?}");
    }
}

#[test]
fn connections_of_another_process_on_the_same_port_are_not_a_servers_own() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // As a worker of a server does, it has the listener; whoever connects is served by this process.
    let worker =
        Command::new("sleep").arg("60").stdin(OwnedFd::from(listener.try_clone().unwrap())).spawn().unwrap();
    let group = Group::from_pid(worker.id()).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let before = ResourceSnapshot::read(&group).unwrap();
    client.write_all(b"ask").unwrap();
    server.read_exact(&mut [0; 3]).unwrap();
    let found = ResourceSnapshot::read(&group).unwrap().since(&before);
    put_away(worker);
    let Some(sockets) = &found.sockets else { return };
    assert!(!sockets.listeners.is_empty(), "{sockets:?}");
    assert_eq!(sockets.server.connections, 0, "{sockets:?}");
    assert!(sockets.clients.data_segments_out >= 1, "{sockets:?}");
}

/// A worker that has this listener and these connections, as this process has.
fn worker_with(listener: &TcpListener, connections: [&TcpStream; 2]) -> Child {
    let [out, err] = connections.map(|connection| OwnedFd::from(connection.try_clone().unwrap()));
    let listener = OwnedFd::from(listener.try_clone().unwrap());
    Command::new("sleep").arg("60").stdin(listener).stdout(out).stderr(err).spawn().unwrap()
}

#[test]
fn what_a_server_asks_is_told_from_what_it_serves() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (served, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    // The server has the asking end, and that of the one it asks as well.
    for connections in [[&client; 2], [&client, &served]] {
        let worker = worker_with(&listener, connections);
        let group = Group::from_pid(worker.id()).unwrap();
        let before = ResourceSnapshot::read(&group).unwrap();
        for _ in 0..17 {
            (&client).write_all(b"ask").unwrap();
            (&served).read_exact(&mut [0; 3]).unwrap();
        }
        let found = ResourceSnapshot::read(&group).unwrap().since(&before);
        put_away(worker);
        let Some(sockets) = found.sockets else {
            testkit::skipped("no sock_diag here");
            return;
        };
        assert_eq!(sockets.asked.unwrap().data_segments_out, 17, "{sockets:?}");
        assert_eq!((sockets.server.connections, sockets.clients.connections), (0, 0), "{sockets:?}");
    }
}

#[test]
fn segments_requests_and_answers_of_a_server_are_counted_exactly() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(addr).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let worker = worker_with(&listener, [&server; 2]);
    let group = Group::from_pid(worker.id()).unwrap();
    let before = ResourceSnapshot::read(&group).unwrap();
    for _ in 0..17 {
        client.write_all(b"ask").unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
        // An answer in two writes is two segments.
        for part in [b"answ", b"ered"] {
            server.write_all(part).unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
        }
    }
    let found = ResourceSnapshot::read(&group).unwrap().since(&before);
    put_away(worker);
    let Some(sockets) = &found.sockets else {
        testkit::skipped("no sock_diag here");
        return;
    };
    let own = sockets.listeners.iter().find(|listener| listener.port == addr.port()).unwrap();
    assert!(own.backlog >= 128 && own.queued == 0, "{own:?}");
    assert_eq!((sockets.server.data_segments_in, sockets.server.data_segments_out), (17, 34), "{sockets:?}");
    assert_eq!((sockets.server.bytes_in, sockets.clients.bytes_in), (17 * 3, 17 * 8), "{sockets:?}");
    assert!(found.files.open >= 3 && found.files.open_limit >= found.files.open, "{:?}", found.files);
    assert!(
        found.memory.total_bytes > found.memory.available_bytes && found.network.in_bytes > 0,
        "{found:?}"
    );
}

#[test]
fn who_takes_datagrams_on_a_port_is_found_where_nobody_listens() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    assert_eq!(listening_process(port).unwrap(), std::process::id());
    // A socket that has one peer is nobody's server.
    socket.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert!(matches!(listening_process(port), Err(ObserveError::NoListener(_))));
}

#[test]
fn a_port_without_listener_is_an_error() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    assert!(matches!(listening_process(port), Err(ObserveError::NoListener(found)) if found == port));
}
