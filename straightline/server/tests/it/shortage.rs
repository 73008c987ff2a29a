//! Too many clients, too few descriptors or stacks, and an end that comes too early. Most of it needs a process of its own.

use crate::support::{
    Client, MODELS, Model, PATIENCE, TestServer, echo, ended_well, note, number_of, own_process,
    raise_descriptors, say,
};
use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use straightline::{Server, rt};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_flood_of_requests_delays_nobody() {
    const PIECE: usize = 1_000;
    let server = TestServer::new(|_, response| response.send(b""));
    let client = server.connect();
    let (mut sender, mut receiver) = (client.stream.try_clone().unwrap(), client.stream);
    let enough = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&enough);
    let sends = std::thread::spawn(move || {
        let mut pieces = 0;
        while !end.load(Ordering::Relaxed) {
            io::Write::write_all(&mut sender, &GET.repeat(PIECE)).unwrap();
            pieces += 1;
        }
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        pieces * PIECE
    });
    let receives = std::thread::spawn(move || io::copy(&mut receiver, &mut io::sink()).unwrap());
    server.until("the flood runs", |server| server.metric("requests_total") > 10 * PIECE as u64);
    server.assert_serves("a flood that goes on");
    enough.store(true, Ordering::Relaxed);
    let asked = sends.join().unwrap() + 1;
    receives.join().unwrap();
    assert_eq!(server.metric("requests_total"), asked as u64);
}

/// Server and client share no descriptors, so each has a process of its own.
#[test]
fn running_out_of_descriptors_pauses_accepting() {
    for model in MODELS {
        run_out_of_descriptors(model);
    }
}

fn run_out_of_descriptors(model: Model) {
    let asked = [(Model::VARIABLE, model.to_string())];
    let (mut server, address) = serve_elsewhere("shortage::serve_with_few_descriptors", &asked);
    let mut clients: Vec<Client> = (0..DESCRIPTORS as usize / 2).map(|_| Client::new(address)).collect();
    for client in &mut clients {
        client.send(GET);
        assert_eq!(client.response().status, 200);
    }
    let mut waiting: Vec<Client> = (0..DESCRIPTORS).map(|_| Client::new(address)).collect();
    waiting.iter_mut().for_each(|client| client.send(GET));
    server.until_it_says("stops accepting: no file descriptors");
    // Those who have a connection are served as before.
    for client in &mut clients {
        client.send(GET);
        assert_eq!(client.response().status, 200);
    }
    clients.clear();
    // Each that was answered makes room for another.
    for mut client in waiting {
        assert_eq!(client.response().status, 200);
    }
    server.until_it_says("accepts again");
    server.end();
}

/// Whoever waits too long for a descriptor gets the one that is kept for that, to be told that there are no more.
#[test]
fn clients_for_whom_there_is_no_room_are_told() {
    std::thread::scope(|scope| MODELS.map(|model| drop(scope.spawn(move || turn_some_away(model)))));
}

fn turn_some_away(model: Model) {
    let asked = [(Model::VARIABLE, model.to_string())];
    let (mut server, address) = serve_elsewhere("shortage::turn_away_with_few_descriptors", &asked);
    let mut clients: Vec<Client> = (0..DESCRIPTORS + TOO_MANY).map(|_| Client::new(address)).collect();
    clients.iter_mut().for_each(|client| client.send(GET));
    let mut served = 0;
    for client in &mut clients {
        let answer = client.response();
        match answer.status {
            200 => served += 1,
            status => {
                assert_eq!((status, answer.header("retry-after").as_deref()), (503, Some("5")), "{model}");
                client.assert_closed("there is no room for it");
            }
        }
    }
    assert!(served > 0 && served < clients.len(), "{model}: {served} of {} were served", clients.len());
    // Those who have a connection keep it, and each that goes makes room for another.
    clients[0].send(GET);
    assert_eq!(clients[0].response().status, 200, "{model}");
    clients.clear();
    server.until_it_says("accepts again");
    let mut next = Client::new(address);
    next.send(GET);
    assert_eq!(next.response().status, 200, "{model}");
    server.end();
}

/// Clients beyond those that the server has descriptors for.
const TOO_MANY: u64 = 10;

pub(crate) fn turn_away_with_few_descriptors() {
    serve_until_told(allow_few_descriptors, |server| {
        assert!(server.metric("refused_total") >= TOO_MANY / 2);
    });
}

/// Descriptors that the server may open for clients.
const DESCRIPTORS: u64 = 30;

pub(crate) fn serve_with_few_descriptors() {
    serve_until_told(allow_few_descriptors, |server| assert!(server.metric("accept_pauses_total") >= 1));
}

fn allow_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let in_use = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(in_use + DESCRIPTORS), maximum }).unwrap();
}

/// A test in another process, which ends with its standard input.
struct Other {
    process: std::process::Child,
    lines: std::io::Lines<io::BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn start(test: &str, environment: &[(&str, String)]) -> Self {
        use std::process::Stdio;
        let mut command = own_process(test);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = io::BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next line that has these words.
    fn until_it_says(&mut self, what: &str) -> String {
        let mut said = Vec::new();
        for line in &mut self.lines {
            said.push(line.unwrap());
            if said.last().unwrap().contains(what) {
                return said.pop().unwrap();
            }
        }
        panic!("it ended without saying {what:?}: {said:?}");
    }

    /// Lets it end, and checks that it found nothing wrong.
    fn end(mut self) {
        drop(self.process.stdin.take());
        self.until_it_says("test result: ok. 1 passed");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

/// A server in another process.
fn serve_elsewhere(test: &str, environment: &[(&str, String)]) -> (Other, SocketAddr) {
    let mut server = Other::start(test, environment);
    let line = server.until_it_says("listening on ");
    let rest = line.split("listening on ").nth(1).unwrap();
    (server, rest.split(',').next().unwrap().parse().unwrap())
}

fn say_where(server: &TestServer) {
    say(&format!("\nlistening on {}, in a process of its own", server.address));
}

/// An answer whose end is that of its connection: the kernel ends that in good order when it closes what a process
/// that was killed had open.
#[test]
fn an_answer_cut_off_by_the_end_of_the_process_does_not_seem_whole() {
    for model in MODELS {
        let asked = [(Model::VARIABLE, model.to_string())];
        let (mut server, address) = serve_elsewhere("shortage::serve_without_end", &asked);
        let mut client = Client::new(address);
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        let mut got = Vec::new();
        while !got.ends_with(b"a part of it") {
            let mut piece = [0; 1024];
            let count = client.stream.read(&mut piece).unwrap();
            assert!(count > 0, "{model}: it ended before it was cut off");
            got.extend_from_slice(&piece[..count]);
        }
        server.process.kill().unwrap();
        let ended = client.stream.read(&mut [0; 8]);
        assert!(
            ended.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset),
            "{model}: {ended:?}"
        );
    }
}

pub(crate) fn serve_without_end() {
    let server = TestServer::of_model(Model::asked_for(), |_, response| {
        let mut response = response.start()?;
        io::Write::write_all(&mut response, b"a part of it")?;
        io::Write::flush(&mut response)?;
        rt::sleep(Duration::from_secs(600))?;
        response.end()
    });
    say_where(&server);
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(ended_well());
}

/// A start that fails at whichever step leaves neither threads nor descriptors, and the port is free again.
#[test]
fn a_server_that_cannot_start_leaves_nothing_running() {
    for model in MODELS {
        let mut command = own_process("shortage::start_with_too_few_descriptors");
        let output = command.env(Model::VARIABLE, model.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && text.contains("1 passed");
        assert!(passed, "{model}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

pub(crate) fn start_with_too_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let in_use = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // Whatever is made once for the whole process is made by now.
    let start = |limited: &dyn Fn()| {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr();
        let server = match Model::asked_for() {
            Model::Coroutines => server.workers(2),
            Model::Threads => server.threads(),
        };
        limited();
        (address, server.on_signals(Duration::from_secs(1)).spawn(echo))
    };
    start(&|| ()).1.unwrap().drain(Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(200));
    let (before, whole) = (in_use(), getrlimit(Resource::Nofile));
    let (mut failed, mut begun) = (0, 0);
    for room in 0..30 {
        // Counted each time, since a busy machine closes some descriptors of the first server late. Counting opens one itself.
        let limit = || {
            let few = Rlimit { current: Some(in_use() - 1 + room), maximum: whole.maximum };
            setrlimit(Resource::Nofile, few).unwrap();
        };
        let (address, outcome) = start(&limit);
        setrlimit(Resource::Nofile, whole).unwrap();
        match outcome {
            Ok(running) => {
                begun += 1;
                running.drain(Duration::from_secs(1));
            }
            Err(_) => failed += 1,
        }
        let deadline = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(address).is_ok() || in_use() > before {
            assert!(Instant::now() < deadline, "{} descriptors of {before}, with room for {room}", in_use());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert!(failed > 0 && begun > 0, "{failed} failed, {begun} began");
}

/// The other side of [`serve_elsewhere`]: says what happens, and ends with its standard input.
fn serve_until_told(prepare: impl FnOnce(), check: impl FnOnce(&TestServer)) {
    let server = TestServer::of_model(Model::asked_for(), echo);
    prepare();
    say_where(&server);
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    let reader = std::thread::spawn(move || {
        io::stdin().read_to_end(&mut Vec::new()).unwrap();
        tell.store(true, Ordering::Relaxed);
    });
    let mut said = 0;
    while !told.load(Ordering::Relaxed) {
        let events = server.events.lock().unwrap().clone();
        events[said..].iter().for_each(|event| say(&event.to_string()));
        said = events.len();
        std::thread::sleep(Duration::from_millis(2));
    }
    reader.join().unwrap();
    check(&server);
}

/// Clients with slow heads: ten thousand by `STRAIGHTLINE_SLOW=10000`.
const SLOW: u64 = 800;
/// Requests of a good client, and how many of them in a hundred may take longer than [`DELAY`]: those during which the
/// machine did something else.
const GOOD: usize = 500;
const LATE_OF_100: usize = 1;
/// Longest that slow heads may delay a good request.
const DELAY: Duration = Duration::from_millis(10);
/// How often it is tried beside all other tests, which take the CPUs for longer than that; what delays in the server
/// delays each try. Alone, as `cargo xtask soak` runs it, it must do at once.
const TRIES: usize = 3;

fn slow_clients() -> u64 {
    number_of("STRAIGHTLINE_SLOW").unwrap_or(SLOW)
}

fn tries() -> usize {
    if number_of("STRAIGHTLINE_SLOW").is_some() { 1 } else { TRIES }
}

/// Slow heads hold a few bytes each, and no stack, and nobody up.
#[test]
fn slow_heads_delay_nobody() {
    let (server, address) = serve_elsewhere("shortage::serve_slow_heads", &[]);
    let mut sender =
        Other::start("shortage::send_slow_heads", &[("STRAIGHTLINE_ADDRESS", address.to_string())]);
    sender.until_it_says("all are connected");
    let mut good = Client::new(address);
    let (mut best, mut tried) = (Duration::MAX, 0);
    while best >= DELAY && tried < tries() {
        tried += 1;
        let mut times: Vec<Duration> = (0..GOOD)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(1));
                let start = Instant::now();
                good.send(GET);
                assert_eq!(good.response().status, 200);
                start.elapsed()
            })
            .collect();
        times.sort();
        best = best.min(times[GOOD - 1 - GOOD * LATE_OF_100 / 100]);
    }
    let found = format!(
        "beside {} slow heads 99 of 100 good requests took at most {best:?}, in the best of {tried} tries",
        slow_clients()
    );
    note(&found);
    assert!(best < DELAY, "{found}");
    drop(good);
    server.end();
    sender.end();
}

pub(crate) fn serve_slow_heads() {
    serve_until_told(raise_descriptors, |server| {
        assert_eq!(server.metric("open_connections"), slow_clients(), "all of them are still there");
        assert_eq!(server.metric("coroutines"), 0, "a slow head holds no coroutine");
        assert!(server.metric("stacks_peak") <= 2);
        // They would keep it from ending in order.
        std::process::exit(ended_well());
    });
}

pub(crate) fn send_slow_heads() {
    raise_descriptors();
    let address = std::env::var("STRAIGHTLINE_ADDRESS").unwrap().parse().unwrap();
    let mut clients: Vec<Client> = (0..slow_clients()).map(|_| Client::new(address)).collect();
    clients.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: x\r\nA: "));
    say("\nall are connected");
    std::thread::spawn(|| {
        io::stdin().read_to_end(&mut Vec::new()).unwrap();
        std::process::exit(ended_well());
    });
    // A byte a second from each, spread over the second.
    let slice = clients.len().div_ceil(100);
    loop {
        for some in clients.chunks_mut(slice) {
            some.iter_mut().for_each(|client| client.send(b"a"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// More handlers than stacks: the rest wait their turn.
#[test]
fn handlers_wait_for_a_stack() {
    let limits = straightline::Limits { connections: 2, ..Default::default() };
    let peak = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let (inside, most) = (Arc::clone(&now), Arc::clone(&peak));
    let server = TestServer::with(
        move |server: Server| server.workers(1).limits(limits),
        move |_, response| {
            // Two connections make four stacks, two of which their handlers have.
            let children: Vec<_> = (0..6)
                .map(|_| {
                    let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
                    rt::spawn(move || {
                        most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        rt::sleep(Duration::from_millis(20)).unwrap();
                        inside.fetch_sub(1, Ordering::Relaxed);
                    })
                })
                .collect();
            for child in children {
                child.join()?;
            }
            response.send(b"")
        },
    );
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.send(GET));
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    assert!(peak.load(Ordering::Relaxed) <= 3, "{peak:?} children at a time");
}
