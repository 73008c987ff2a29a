//! Protocols other than HTTP/1.1 in plain, and the generators that speak them.

use super::tool::{Load, written};

/// What a call of gRPC is described by.
const PROTO: &str = "syntax = \"proto3\";\npackage bench;\nmessage Text { string text = 1; }\n\
                     service Greeter { rpc Greet(Text) returns (Text); }\n";
/// The message of each call.
const MESSAGE: &str = r#"{"text":"whyslow"}"#;
/// What k6 does: each user has a connection for as long as the window lasts, on which each message that is answered is
/// followed by another.
const SCRIPT: &str = "\
import ws from 'k6/ws';
export const options = { vus: __ENV.VUS, iterations: __ENV.VUS };
export default function () {
  ws.connect(__ENV.URL, null, (socket) => {
    socket.on('open', () => socket.send('hello'));
    socket.on('message', () => socket.send('hello'));
    socket.setTimeout(() => socket.close(), 1000 * __ENV.SECONDS);
  });
}
export function handleSummary(data) {
  return { stdout: String(data.metrics.ws_msgs_received.values.count) };
}
";

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// HTTP/1.1 over TLS.
    Tls,
    Http2,
    Http2Tls,
    Http3,
    Grpc,
    WebSocket,
}

impl Wire {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tls => "whyslow load, TLS",
            Self::Http2 => "whyslow load --http2",
            Self::Http2Tls => "whyslow load --http2, TLS",
            Self::Http3 => "whyslow load --http3",
            Self::Grpc => "whyslow load --grpc",
            Self::WebSocket => "whyslow load --ws",
        }
    }

    /// The flags and the URL of whyslow.
    pub(super) fn flags(self, streams: u32, address: &str) -> anyhow::Result<String> {
        let (plain, tls) =
            (format!("http://{address}/plaintext"), format!("--insecure https://{address}/plaintext"));
        Ok(match self {
            Self::Tls => tls,
            Self::Http2 => format!("--http2 --streams {streams} {plain}"),
            Self::Http2Tls => format!("--http2 --streams {streams} {tls}"),
            Self::Http3 => format!("--http3 --streams {streams} {tls}"),
            Self::Grpc => {
                let proto = written("greeter.proto", PROTO)?;
                format!(
                    "--grpc bench.Greeter/Greet --message {MESSAGE} --proto {proto} --streams {streams} {plain}"
                )
            }
            Self::WebSocket => format!("--ws --body hello ws://{address}/"),
        })
    }

    /// The command line of h2load, which asks whoever it connects to for no certificate.
    pub(super) fn of_h2load(self, load: &Load, address: &str) -> String {
        let Load { connections, pipeline, seconds, .. } = load;
        let flags = match self {
            Self::Tls => format!("--h1 https://{address}/plaintext"),
            Self::Http2 => format!("-m {pipeline} http://{address}/plaintext"),
            _ => format!("-m {pipeline} https://{address}/plaintext"),
        };
        format!("h2load -t 1 -c {connections} -D {seconds} {flags}")
    }
}

/// The command line of ghz, whose workers have as many calls in flight as our streams.
pub(super) fn ghz(load: &Load, address: &str) -> anyhow::Result<String> {
    let Load { connections, pipeline, seconds, .. } = load;
    let (proto, workers) = (written("greeter.proto", PROTO)?, connections * pipeline);
    Ok(format!(
        "ghz --insecure --proto {proto} --call bench.Greeter.Greet -d {MESSAGE} --connections {connections} \
         -c {workers} -z {seconds}s --cpus 1 --format json {address}"
    ))
}

/// The command line of k6.
pub(super) fn k6(load: &Load, address: &str) -> anyhow::Result<String> {
    let Load { connections, seconds, .. } = load;
    let script = written("messages.js", SCRIPT)?;
    Ok(format!(
        "k6 run --quiet --no-usage-report -e VUS={connections} -e SECONDS={seconds} -e URL=ws://{address}/ {script}"
    ))
}
