//! The same of what is spoken beside plain HTTP/1.1: HTTP/2, gRPC, WebSocket, streams of events, HTTP/3.

use std::net::SocketAddr;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::session::enveloped;
use load::{Address, Config, Roots, Target};
use testkit::{Behaviour, Heads, Reply, Server, ServerSpec, Wire};

use super::{ARRIVALS, MILLI, Run, UNSEEN_NS, alone, lie, outcome, true_responses};
use crate::serving::streams::{Clock, Conduct};
use crate::tries::one_is_right;
use crate::{quic, wires};

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Http2,
    Grpc,
    /// A call that is answered by three messages.
    GrpcStream,
    WebSocket,
    Events,
    Http3,
}

const OVER: [Over; 6] =
    [Over::Http2, Over::Grpc, Over::GrpcStream, Over::WebSocket, Over::Events, Over::Http3];

impl Over {
    /// The test kit's server of it, which accepts so late; HTTP/3 has one of its own.
    fn spec(self, behaviour: Behaviour, accept_after: Duration) -> ServerSpec {
        const STREAM: &str =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n";
        let streams: fn() -> Box<dyn Wire> = || Box::<wires::Streams>::default();
        let (wire, reply): (fn() -> Box<dyn Wire>, Reply) = match self {
            Self::Http2 => (streams, wires::Streams::reply()),
            Self::Grpc => (streams, wires::Streams::reply_to_call(1)),
            Self::GrpcStream => (streams, wires::Streams::reply_to_call(3)),
            Self::WebSocket => (|| Box::<wires::Messages>::default(), wires::Messages::reply()),
            Self::Events | Self::Http3 => {
                (|| Box::<Heads>::default(), Reply { bytes: STREAM.into(), close: false })
            }
        };
        ServerSpec { wire, replies: vec![reply], accept_after, ..ServerSpec::new(behaviour) }
    }

    /// How it is asked of a server on `address`, with as many in flight at most as everywhere; streams on one connection, or they would
    /// be received in another order than they are due in.
    fn config(self, address: SocketAddr) -> Config {
        let port = address.port();
        let url = match self {
            Self::WebSocket => format!("ws://{address}/"),
            Self::Http3 => format!("https://localhost:{port}/"),
            Self::Grpc | Self::GrpcStream => format!("http://{address}/a.B/C"),
            Self::Http2 | Self::Events => format!("http://{address}/"),
        };
        let mut config = Config::new(Target::resolve(&url).unwrap());
        config.target.addresses.retain(|other| *other == Address::Tcp(address));
        (config.threads, config.connections) = (1, 32);
        match self {
            Self::Http2 => (config.connections, config.http2) = (1, Some(32)),
            Self::Grpc | Self::GrpcStream => {
                config.one_message = self == Self::Grpc;
                (config.connections, config.http2, config.grpc) = (1, Some(32), true);
                config.request.method = "POST".into();
                config.request.headers.push(("Content-Type".into(), "application/grpc".into()));
                config.request.body = enveloped(b"hello").unwrap();
            }
            Self::WebSocket => (config.websocket, config.request.body) = (true, b"hello".to_vec()),
            Self::Events => config.events = Some(None),
            Self::Http3 => {
                (config.connections, config.http3) = (1, Some(32));
                config.tls.roots = Roots::Anyone;
            }
        }
        config
    }

    /// Its server, driven for a window.
    fn drive(self, (behaviour, late): (Behaviour, Duration), change: impl FnOnce(&mut Config)) -> Run {
        let _alone = alone();
        if self == Self::Http3 {
            let clock = Clock::new(behaviour);
            let (address, _) = quic::serve(
                crate::http3::identity(),
                Conduct { clock: Some(clock.clone()), ..Conduct::default() },
            );
            let mut config = self.config(address);
            change(&mut config);
            let (outcome, start_ns) = outcome(&config);
            return Run { outcome, log: clock.log(), start_ns };
        }
        let server = Server::start(self.spec(behaviour, late));
        let mut config = self.config(server.address);
        change(&mut config);
        let (outcome, start_ns) = outcome(&config);
        Run { outcome, log: server.finish(), start_ns }
    }

    /// Requests each second, for how long, and what of an answer's way neither log nor schedule has. In each window at least one
    /// request is above the 0.999 quantile.
    fn pace(self) -> (f64, Duration, f64) {
        let window = Duration::from_millis(700);
        match self {
            // Its client notes the time once it has decrypted all that came at once. Without optimisation that took 0.1 ms of half of
            // all answers, and up to 0.6 ms beside compilers. Only servers that are prompt are so quick that 5 % are less.
            Self::Http3 => (800.0, Duration::from_millis(1_300), 12.0 * UNSEEN_NS),
            // Without optimisation, frames and their fields alone took up to 70 µs on the slowest machine so far. Events are timed
            // when they are read, not when the kernel has them. At 4000 a second a host that took a quarter of the CPUs left the client
            // behind its answers.
            Self::Http2 | Self::Grpc | Self::GrpcStream | Self::Events => (2_000.0, window, 2.0 * UNSEEN_NS),
            Self::WebSocket => (4_000.0, window, UNSEEN_NS),
        }
    }
}

/// What is reported is true in one run of some; whether the host let that be seen.
fn is_true(over: Over, arrival: Arrival, name: &str, server: (Behaviour, Duration)) -> bool {
    let (per_s, window, unseen_ns) = over.pace();
    let pace = Pace::open(per_s, arrival);
    one_is_right(&format!("{over:?}, {name}, {arrival:?}"), || {
        let run = over.drive(server, |config| (config.pace, config.window) = (pace.clone(), window));
        let errors = run.outcome.report.errors;
        assert_eq!(errors.total(), 0, "{over:?}, {name}: {errors:?}");
        let truth = true_responses(&run, &pace, 1);
        let longest = truth.last().copied().map(Duration::from_nanos);
        assert!(longest >= Some(server.1 / 2), "{over:?}, {name}: {longest:?} is not late");
        lie(&run, &truth, unseen_ns)
    })
}

/// Each window has at least three stalls, dozens of slow answers, or a queue of one and another.
#[test]
fn percentiles_of_every_protocol_are_those_of_the_servers_own_log() {
    for (over, arrival) in OVER.into_iter().flat_map(|over| ARRIVALS.map(|arrival| (over, arrival))) {
        for (name, behaviour) in [
            ("stall", Behaviour::Stall { every_ns: 300 * MILLI, for_ns: 60 * MILLI }),
            ("slow", Behaviour::Slow { one_in: 40, by_ns: 30 * MILLI }),
            ("queue", Behaviour::Queue { service_ns: (0.8 * 1e9 / over.pace().0) as u64 }),
        ] {
            if !is_true(over, arrival, name, (behaviour, Duration::ZERO)) {
                return;
            }
        }
    }
}

/// Each with the one or the other kind of arrivals.
#[test]
fn percentiles_of_servers_that_are_prompt_or_late_or_freeze_are_those_of_their_logs() {
    for (index, over) in OVER.into_iter().enumerate() {
        for (number, (name, behaviour, late_ms)) in [
            ("prompt", Behaviour::Prompt, 0),
            ("freeze", Behaviour::Freeze { after_ns: 400 * MILLI }, 0),
            // QUIC has no queue of connections that are accepted later.
            ("late accept", Behaviour::Prompt, 300),
        ]
        .into_iter()
        .enumerate()
        .filter(|(_, (_, _, late_ms))| over != Over::Http3 || *late_ms == 0)
        {
            let arrival = ARRIVALS[(index + number) % ARRIVALS.len()];
            if !is_true(over, arrival, name, (behaviour, Duration::from_millis(late_ms))) {
                return;
            }
        }
    }
}
